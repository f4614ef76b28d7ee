// What a stage makes of samples that are given to it outside a pipeline.
#pragma once
#include <string>
#include <vector>

#include "kinora/abi/stage.h"
#include "kinora/sample.hpp"

namespace kinora::core {

struct StageResults {
  struct Dropped {
    std::string key, rule;
    double score;
  };
  struct Failed {
    std::string key, reason;
  };
  std::vector<Sample> emitted;
  std::vector<Dropped> dropped;
  std::vector<Failed> failed;

  // For kinora_stage.process and finish; this object must outlive it.
  kinora_emit sink();
};

// What a stage found broken in the sample's media: the text "damaged" of its field json or of one *.json;
// empty if nothing.
std::string damage_of(const Sample& sample);

}  // namespace kinora::core
