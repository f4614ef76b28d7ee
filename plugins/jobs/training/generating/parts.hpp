// Where a job's networks come from: a slot of its own with weights from elsewhere, or an earlier job that
// trained one.
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

// The job's own slot of that name with the files or folders that its option weights_option names; without the
// slot, what the nearest job of kind `trained_by` above it trained, with its weights or those of the option.
// Throws Error(KINORA_INVALID) that says both ways if there is neither.
Part part_of(const JobView&, const std::string& slot, const std::string& weights_option,
             const std::string& trained_by);

// A tokenizer or text encoder for use, with its weights; a model is opened by its job, which knows the links.
std::unique_ptr<Network> open_part(const JobView&, const Part&, const ChainOptions& = {});

}  // namespace kinora::core
