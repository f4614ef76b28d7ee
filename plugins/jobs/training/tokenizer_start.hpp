// Where a tokenizer's training starts from.
#pragma once
#include "plugins/jobs/training/options/training.hpp"
#include "core/run/job.hpp"
#include "core/torch/context/network.hpp"

namespace kinora::core {

// Throws Error(KINORA_INVALID) if the options name two beginnings.
void require_one_start(const TrainTokenizerOptions&);

// Loads safetensors or TorchScript archives under any layout of the job's tokenizer. partial: what does not
// fit is drawn by the run's seed, and the table of what became of each tensor is logged and, if `writes`,
// left as weights.txt in the job's folder.
void start_from(JobContext&, Network& tokenizer, const WeightsPaths& weights, bool partial, bool writes);

// The first line of weights.txt: "12 taken, 1 resized, 2 new, 0 unused". Empty without the file.
std::string start_counts(const JobContext&);

}  // namespace kinora::core
