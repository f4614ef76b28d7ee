// Which of several detectors' cuts are the film's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kinora::video {

struct NamedCuts {
  std::string name;
  std::vector<int64_t> cuts;  // ascending
};

// decide: any, all, or a name in `found`. any: cuts of all, where those no more than `tolerance` frames from the one before are one; all: of these, the ones
// that every detector has a part in. One stands where the detector that is named first has it. The first frame of the
// film, which PySceneDetect's detectors may name when there is no minimum length, begins no new shot and is left out.
std::vector<int64_t> decided_cuts(const std::vector<NamedCuts>& found, const std::string& decide, int64_t tolerance);

// The same while the cuts come. [owner-thread]
class CutDecision {
 public:
  CutDecision(const std::vector<std::string>& names, const std::string& decide, int64_t tolerance);

  // found: all cuts so far of each name, ascending; settled: the frame before which there will be no more of them.
  void advance(const std::vector<const std::vector<int64_t>*>& found, const std::vector<int64_t>& settled);

  // The film's cuts so far, ascending, and the frame before which there will be no more.
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

  std::vector<size_t> of_;       // the detectors that are asked
  std::vector<size_t> taken_;    // how many cuts of each
  bool all_;
  int64_t tolerance_;
  std::vector<Cut> together_;    // cuts that count as one, to which more may come
  std::vector<int64_t> cuts_;
  int64_t settled_ = 0;
};

}  // namespace kinora::video
