// Combines the cuts of several detectors into the cuts of the video.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kinora::video {

struct NamedCuts {
  std::string name;
  std::vector<int64_t> cuts;  // ascending
};

// decide: any, all, or a name in `found`. any: the cuts of all detectors; a cut at most `tolerance` frames after the previous
// one is merged with it. all: those merged cuts in which every detector has a part. A merged cut takes the position given by
// the detector that is named first. The video's first frame, which PySceneDetect's detectors may report when there is no
// minimum length, begins no new shot and is left out.
std::vector<int64_t> decided_cuts(const std::vector<NamedCuts>& found, const std::string& decide, int64_t tolerance);

// The same rule while cuts are still being found. [owner-thread]
class CutDecision {
 public:
  CutDecision(const std::vector<std::string>& names, const std::string& decide, int64_t tolerance);

  // found: all cuts so far per detector, ascending; settled: for each, the frame before which it will report no more cuts.
  void advance(const std::vector<const std::vector<int64_t>*>& found, const std::vector<int64_t>& settled);

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

  std::vector<size_t> of_;       // indices of the detectors that decide
  std::vector<size_t> taken_;    // number of cuts consumed per detector
  bool all_;
  int64_t tolerance_;
  std::vector<Cut> together_;    // cuts merged into one, which may still grow
  std::vector<int64_t> cuts_;
  int64_t settled_ = 0;
};

}  // namespace kinora::video
