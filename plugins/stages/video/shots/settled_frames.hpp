// Up to which frame a detector has made up its mind: what lets a film be cut while its shots are still being looked for.
#pragma once
#include "shots/flash_filter.hpp"
#include "shots/shot_detector.hpp"

namespace kinora::video {

// [owner-thread] Beside one detector; follows it by its scores.
//
//   content           at once, but for a burst that is open (see FlashFilter): its last frame above the threshold
//   adaptive          `window` frames late
//   threshold         a fade is open until the film comes back; the cut may lie anywhere in it
//   histogram, hash, fixed   at once
class SettledFrames {
 public:
  // rate: nominal_frame_rate() of the film.
  SettledFrames(const DetectorOptions& options, double rate);

  // After detector.push(.., now): every cut before the returned frame is among detector.cuts(), never one more.
  int64_t after(const ShotDetector& detector, const Moment& now);

 private:
  int64_t after_fade(double mean, const Moment& now);

  DetectorOptions options_;
  FlashFilter filter_;
  bool out_ = false, first_ = true;  // of threshold: dark (or, for a ceiling, bright)
  int64_t faded_ = 0;                // since this frame
};

}  // namespace kinora::video
