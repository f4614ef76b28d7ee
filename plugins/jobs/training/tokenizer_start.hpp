// Sets the initial weights of a tokenizer's training.
#pragma once
#include "plugins/jobs/training/options/training.hpp"
#include "core/run/job.hpp"
#include "core/torch/context/network.hpp"

namespace kinora::core {

// Throws Error(KINORA_INVALID) if the options set the initial weights twice.
void require_one_start(const TrainTokenizerOptions&);

// Loads safetensors or TorchScript archives under any layout of the job's tokenizer. partial: tensors that do
// not fit are initialised from the run's seed, and a table of all tensors is logged and, if `writes`, stored
// as weights.txt in the job's folder.
void start_from(JobContext&, Network& tokenizer, const WeightsPaths& weights, bool partial, bool writes);

// The first line of weights.txt: "12 taken, 1 resized, 2 new, 0 unused". Empty without the file.
std::string start_counts(const JobContext&);

}  // namespace kinora::core
