// Collects the outcomes of samples that a stage processes outside a pipeline.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "kinora/abi/stage.h"
#include "kinora/sample.hpp"

namespace kinora::core {

struct StageResults {
  struct Dropped {
    std::string key, rule;
    double score;
    Sample sample;
  };
  struct Failed {
    std::string key, reason;
  };
  std::vector<Sample> emitted;
  std::vector<Dropped> dropped;
  std::vector<Failed> failed;
  std::string input;           // key of the sample in process(); empty: none
  std::set<std::string> held;  // inputs that are held and have no outcome yet

  // Call after finish(): counts inputs that are still held as failed.
  void end_held();
  // For kinora_stage.process and finish; this object must outlive it.
  kinora_emit sink();
};

// The damage that a stage found in the sample's media: the text "damaged" of its field json or of one *.json;
// empty if there is none.
std::string damage_of(const Sample& sample);

}  // namespace kinora::core
