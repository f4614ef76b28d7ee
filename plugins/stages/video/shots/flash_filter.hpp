// PySceneDetect 0.7.2's FlashFilter, with identical decisions: selects which frames above a detector's
// threshold are cuts when shots have a minimum length.
//
// merge: a frame above the threshold is a cut at once if it comes at least a minimum length after the
// previous one, or after the first frame of the video. Frames that follow sooner, such as flashes, are
// dropped until a first cut has been emitted; after that they open a burst. A burst gives one cut, at its
// last frame above the threshold. This is decided once a minimum length has passed without another such
// frame, and only if the burst itself is that long. Until then the burst stays open and absorbs further
// frames; if it is still open at the end of the video, it is dropped. suppress: a frame above the threshold
// is a cut if it comes a minimum length after the last cut or the first frame.
#pragma once

#include <cstdint>
#include <optional>

#include "shots/frame_times.hpp"

namespace kinora::video {

class FlashFilter {
 public:
  enum class Mode { merge, suppress };

  // min_length: frames at the nominal `rate`; 0: every frame above the threshold is a cut. Otherwise rate 0
  // gives no cuts.
  FlashFilter(Mode mode, int64_t min_length, double rate);

  // Takes the next frame. Returns the index of the first frame of a new shot once it is decided: this frame
  // or an earlier one, ascending over the calls.
  std::optional<int64_t> push(bool above, const Moment& now);

  // Returns the frame before which all decisions are final; `now` is the frame pushed last. Only the last
  // frame above the threshold of a long enough burst stays undecided.
  int64_t settled(const Moment& now) const;

 private:
  bool min_length_between(const Moment& from, const Moment& to) const;
  std::optional<int64_t> merge(bool above, const Moment& now);
  std::optional<int64_t> continue_burst(bool above, bool quiet_long_enough);

  Mode mode_;
  int64_t min_length_;
  double rate_;
  bool started_ = false;
  Moment last_above_;   // the first frame until one is above the threshold; with suppress: the last cut
  Moment burst_start_;  // meaningful while in_burst_
  bool in_burst_ = false;
  bool cut_emitted_ = false;
};

}  // namespace kinora::video
