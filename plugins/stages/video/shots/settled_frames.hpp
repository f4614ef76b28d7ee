// Tells up to which frame a detector's decisions are final, so that a video can be cut while its shots are being found.
#pragma once
#include "shots/flash_filter.hpp"
#include "shots/shot_detector.hpp"

namespace kinora::video {

// [owner-thread] Follows one detector by its scores.
//
//   content           at once, except for the last frame above the threshold of an open burst (see FlashFilter)
//   adaptive          `window` frames late
//   threshold         at once, except within an open fade: the cut may be anywhere in it
//   histogram, hash, fixed   at once
class SettledFrames {
 public:
  // rate: nominal_frame_rate() of the video.
  SettledFrames(const DetectorOptions& options, double rate);

  // Call after detector.push(.., now): detector.cuts() has all cuts before the returned frame, and will get no more.
  int64_t after(const ShotDetector& detector, const Moment& now);

 private:
  int64_t after_fade(double mean, const Moment& now);

  DetectorOptions options_;
  FlashFilter filter_;
  bool out_ = false, first_ = true;  // threshold: dark (for a ceiling, bright)
  int64_t faded_ = 0;                // the frame at which the fade began
};

}  // namespace kinora::video
