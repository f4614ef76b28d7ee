// Finds a job's networks: in a slot of its own with weights from elsewhere, or in an earlier job that trained
// one.
#pragma once
#include <memory>

#include "plugins/jobs/training/options/paths_option.hpp"
#include "core/run/job.hpp"
#include "core/torch/context/network.hpp"

namespace kinora::core {

struct Part {
  const ComponentUse* use = nullptr;
  WeightsPaths weights;
};

// The job's own slot of that name with the files or folders of its option weights_option; without the slot,
// the network that the nearest earlier job of kind `trained_by` trained, with its weights or those of the
// option. Throws Error(KINORA_INVALID) that names both ways if there is neither.
Part part_of(const JobView&, const std::string& slot, const std::string& weights_option,
             const std::string& trained_by);

// Opens a tokenizer or text encoder with its weights; a model is opened by its job, which knows the links.
std::unique_ptr<Network> open_part(const JobView&, const Part&, const ChainOptions& = {});

}  // namespace kinora::core
