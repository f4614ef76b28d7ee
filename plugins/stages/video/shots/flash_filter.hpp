// PySceneDetect 0.7.2's FlashFilter, decision for decision: which frames above a detector's threshold are cuts when a
// shot has a minimum length.
//
// merge: a frame above the threshold that comes a minimum length after the one before it, or after the first frame of
// the video, is a cut at once. Those that follow one another sooner, such as flashes, are dropped until a first cut has
// been emitted; from then on they open a burst, which is one cut: at its last frame above, decided once a minimum length
// has passed without another one and only if the burst itself is that long. Until then it stays open and takes in
// whatever comes; open at the end of the video, it is dropped.
// suppress: a frame above the threshold is a cut if it comes a minimum length after the last cut or the first frame.
#pragma once

#include <cstdint>
#include <optional>

#include "shots/shot_clock.hpp"

namespace kinora::video {

class FlashFilter {
 public:
  enum class Mode { merge, suppress };

  // min_length: frames at the nominal `rate`; 0: every frame above is a cut. With rate 0 there is never one else.
  FlashFilter(Mode mode, int64_t min_length, double rate);

  // The next frame. Returns the index of the first frame of a new shot once one is decided: this frame or an earlier
  // one, ascending over the calls.
  std::optional<int64_t> push(bool above, const Moment& now);

  // Whether frames before this one are cuts has been said; `now` is the frame that was pushed last. What is left open is
  // the last frame above of a burst that is long enough.
  int64_t settled(const Moment& now) const;

 private:
  bool min_length_between(const Moment& from, const Moment& to) const;
  std::optional<int64_t> merge(bool above, const Moment& now);
  std::optional<int64_t> continue_burst(bool above, bool quiet_long_enough);

  Mode mode_;
  int64_t min_length_;
  double rate_;
  bool started_ = false;
  Moment last_above_;   // the first frame until one is above; of suppress: the last cut
  Moment burst_start_;  // meaningful while in_burst_
  bool in_burst_ = false;
  bool cut_emitted_ = false;
};

}  // namespace kinora::video
