// Combines the cuts of several detectors into the cuts of the video, at the end of the video or while they
// are being found.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shots/flash_filter.hpp"
#include "shots/shot_detector.hpp"

namespace kinora::video {

// Decides the cuts of a video while the detectors still find theirs. decide: any, all, or a detector's name.
// any: the cuts of all detectors; a cut at most `tolerance` frames after the previous one is merged with it.
// all: those merged cuts in which every detector has a part. A merged cut takes the position given by the
// detector that is named first. The video's first frame, which PySceneDetect's detectors may report if no
// minimum length is set, begins no new shot and is left out. [owner-thread]
class CutDecision {
 public:
  // between: frames between two cuts, at least the difference of their indices.
  using Distance = std::function<int64_t(int64_t from, int64_t to)>;
  CutDecision(
      const std::vector<std::string>& names, const std::string& decide, int64_t tolerance,
      Distance between = [](int64_t from, int64_t to) { return to - from; });

  // found: all cuts so far per detector, ascending; settled: for each, the frame before which it will report
  // no more cuts; certain: all further cuts so far, which no rule removes.
  void advance(const std::vector<const std::vector<int64_t>*>& found, const std::vector<int64_t>& settled,
               const std::vector<int64_t>& certain = {});

  // The video's cuts so far, ascending, and the frame before which there will be no more.
  const std::vector<int64_t>& cuts() const { return cuts_; }
  int64_t settled() const { return settled_; }

 private:
  struct Cut {
    int64_t frame;
    size_t by;
    bool operator<(const Cut& o) const { return frame != o.frame ? frame < o.frame : by < o.by; }
  };
  void take(const Cut& cut);
  void close();
  void merge(const std::vector<int64_t>& certain);

  std::vector<size_t> of_;     // indices of the detectors that decide
  std::vector<size_t> taken_;  // number of cuts consumed per detector
  bool all_;
  int64_t tolerance_;
  Distance between_;
  std::vector<Cut> together_;        // cuts merged into one, which may still grow
  std::vector<int64_t> decided_;     // by the detectors
  size_t merged_ = 0, certain_ = 0;  // number of decided and certain cuts in cuts_
  std::vector<int64_t> cuts_;
  int64_t settled_ = 0;
};

// Tells up to which frame a detector's decisions are final. [owner-thread] Follows one detector by its
// scores.
//
//   content           at once, except for the last frame above the threshold of an open burst (see
//   FlashFilter) adaptive          `window` frames late threshold         at once, except within an open
//   fade: the cut may be anywhere in it transnetv2        kDelay frames late, and not within an
//   open change (see NetworkCuts) histogram, hash, fixed   at once
class SettledFrames {
 public:
  // rate: nominal_frame_rate() of the video.
  SettledFrames(const DetectorOptions& options, double rate);

  // Call after detector.push(.., now): detector.cuts() has all cuts before the returned frame, and will get
  // no more.
  int64_t after(const ShotDetector& detector, const Moment& now);

 private:
  int64_t after_fade(double mean, const Moment& now);

  DetectorOptions options_;
  FlashFilter filter_;
  bool out_ = false, first_ = true;  // threshold: dark (for a ceiling, bright)
  int64_t faded_ = 0;                // the frame at which the fade began
};

}  // namespace kinora::video
