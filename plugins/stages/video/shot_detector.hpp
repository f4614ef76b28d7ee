// Decides where the shots of one video begin, from one content score a frame: PySceneDetect 0.7.1's
// ContentDetector and its FlashFilter in merge mode, decision for decision. Decoding and scoring happen
// elsewhere.
//
// A frame whose score reaches the threshold is *above*. One that comes a minimum length after the above-frame
// before it, or after the first frame of the video, is a cut at once. Above-frames that follow one another
// sooner, such as flashes, are dropped until a first cut has been emitted; from then on they open a burst,
// which is one cut: at its last above-frame, decided once a minimum length has passed without another one and
// only if the burst itself is that long. Until then it stays open and takes in whatever comes; open at the
// end of the video, it is dropped.
//
// The minimum length is a duration. Given in frames, it is that many frame intervals at the nominal rate,
// compared with presentation times in whole microseconds: in a video of variable rate, or in a container that
// rounds times to milliseconds, it is not a count of frames.
#pragma once

#include <cstdint>
#include <optional>

namespace kinora::video {

// The rate PySceneDetect counts with for a container's `frames_per_second` (OpenCV takes the stream's
// avg_frame_rate, or 1 / time_base where that is unknown): a whole number as it is, within 1e-3 of N *
// 1000/1001 that fraction, else the nearest one with a denominator up to 10000. 0 for a value that is not
// above 1e-9 or not finite.
double nominal_frame_rate(double frames_per_second);

// Presentation time in microseconds, as it leaves OpenCV (milliseconds, a double) and enters PySceneDetect
// (rounded half to even). `pts` and `start` count time_base_numerator / time_base_denominator seconds;
// `start` is the stream's.
int64_t presentation_microseconds(int64_t pts, int64_t start, int time_base_numerator,
                                  int time_base_denominator);

struct ContentDetectorOptions {
  double threshold = 27.0;            // a score at or above it may be a cut
  int64_t min_scene_len_frames = 15;  // 0: every frame above the threshold is a cut
};

class ContentDetector {
 public:
  // The container's rate; its nominal one turns the minimum length into seconds. With rate 0 there is never a
  // cut, unless the minimum length is 0.
  ContentDetector(const ContentDetectorOptions& options, double frames_per_second);

  // Takes the next frame's score (0 for the first frame) and time. Returns the index, from 0, of the first
  // frame of a new shot once one is decided: this frame or an earlier one, ascending over the calls.
  std::optional<int64_t> push(double score, int64_t time_microseconds);

 private:
  struct Moment {
    int64_t frame = 0;
    int64_t microseconds = 0;
  };
  bool min_length_between(const Moment& from, const Moment& to) const;
  std::optional<int64_t> continue_burst(bool above, bool quiet_long_enough);

  double threshold_;
  double min_seconds_;
  int64_t next_frame_ = 0;
  Moment last_above_;   // the first frame until one is above
  Moment burst_start_;  // meaningful while in_burst_
  bool in_burst_ = false;
  bool cut_emitted_ = false;
};

}  // namespace kinora::video
