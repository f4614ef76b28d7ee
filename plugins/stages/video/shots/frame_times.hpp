// Presentation times of a video's frames, at constant or variable rate, by which all lengths are measured.
//
// Time is what PySceneDetect 0.7.2 measures, so that minimum lengths mean the same: a nominal rate from the
// container, and presentation times in whole microseconds. A length in frames is a length in time at the
// nominal rate. In a video of variable rate, or in a container that rounds times to milliseconds, it is not a
// count of frames.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "media/probe.hpp"

namespace kinora::video {

// The rate that PySceneDetect uses for a container's `frames_per_second` (OpenCV takes the stream's
// avg_frame_rate, or 1 / time_base if that is unknown): a whole number unchanged; within 1e-3 of N *
// 1000/1001 that fraction; else the nearest fraction with a denominator up to 10000. 0 for a value that is
// not above 1e-9 or not finite.
double nominal_frame_rate(double frames_per_second);

// Presentation time in microseconds, as OpenCV reports it (milliseconds, a double) and PySceneDetect rounds
// it (half to even). `pts` and `start`, the stream's start, count time_base_numerator / time_base_denominator
// seconds.
int64_t presentation_microseconds(int64_t pts, int64_t start, int time_base_numerator,
                                  int time_base_denominator);

// A frame's index and its time from the start of the video.
struct Moment {
  int64_t frame = 0;
  int64_t microseconds = 0;
};

// Time between two moments, not below 0, in frames of the nominal rate, rounded half to even.
int64_t nominal_frames_between(const Moment& from, const Moment& to, double rate);

// Multiples of a time in whole microseconds: each is due at the first frame at or after it. Several multiples
// within one gap between frames count once.
class EvenTimes {
 public:
  // first: the first multiple, 0 or 1.
  EvenTimes(double seconds, int64_t first) : microseconds_(std::max(1.0, seconds * 1e6)), next_(first) {}
  bool due(int64_t microseconds);

 private:
  double at(int64_t n) const;
  double microseconds_;
  int64_t next_;
};

// Times of frames as they are decoded, in microseconds from the first.
class VideoClock {
 public:
  explicit VideoClock(Rational base) : base_(base) {}
  // duration: of the frame, in ticks; replaced by the next frame's pts.
  Moment next(int64_t pts, int64_t duration);
  const std::vector<int64_t>& times() const { return times_; }
  // End of the last frame.
  int64_t end() const { return microseconds(end_pts_); }

 private:
  int64_t microseconds(int64_t pts) const {
    return presentation_microseconds(pts, start_, base_.num, base_.den);
  }

  Rational base_;
  int64_t start_ = 0, end_pts_ = 0;
  std::vector<int64_t> times_;
};

// Times of frames 0 to N - 1 and, as frame N, of the end of the video; microseconds from the first frame,
// ascending.
class FrameTimes {
 public:
  FrameTimes() = default;
  // One frame every 1 / fps seconds.
  FrameTimes(int64_t frames, double fps, int64_t end) : even_(frames), end_(end), fps_(fps) {}

  void push(int64_t microseconds) { times_.push_back(microseconds); }
  // Number of known times; for a complete video one more than its frames.
  int64_t known() const { return even_ > 0 ? even_ + 1 : static_cast<int64_t>(times_.size()); }
  int64_t at(int64_t frame) const;

  // Returns the last frame of [from, end] that is shown at most this many microseconds after `from`.
  int64_t last_within(int64_t from, int64_t end, int64_t microseconds) const;
  // Returns the first frame of [first, end] that is shown at most this many microseconds before `end`.
  int64_t first_within(int64_t first, int64_t end, int64_t microseconds) const;

 private:
  std::vector<int64_t> times_;
  int64_t even_ = 0, end_ = 0;  // even_: number of frames; 0 if times_ is used
  double fps_ = 0;
};

// Time of frame `i` in a video of constant rate.
int64_t even_time(int64_t i, double fps);

// Adds the end of the video to shots.json (end_us) and, if its frames are not shown every 1 / fps, their
// times (frame_times_us).
void write_frame_times(nlohmann::json& shots, const VideoClock& clock, double fps);

// Reads the output of write_frame_times(); without it, times follow from the rate. std::invalid_argument for
// invalid times.
FrameTimes read_frame_times(const nlohmann::json& shots);

}  // namespace kinora::video
