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

}  // namespace kinora::video
