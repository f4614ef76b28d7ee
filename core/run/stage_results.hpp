// What a stage makes of samples that are given to it outside a pipeline.
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
  std::string input;           // key of what process() has now; empty: it is not at work
  std::set<std::string> held;  // inputs that are kept back, and of which nothing was told yet

  // After finish(): what is still kept back has failed.
  void end_held();
  // For kinora_stage.process and finish; this object must outlive it.
  kinora_emit sink();
};

// What a stage found broken in the sample's media: the text "damaged" of its field json or of one *.json;
// empty if nothing.
std::string damage_of(const Sample& sample);

}  // namespace kinora::core
