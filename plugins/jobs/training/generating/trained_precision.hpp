// What a training notes of its precision in the metadata of its weights, and how a generate job's differs from it.
#pragma once
#include <string>

#include "core/torch/context/chain.hpp"
#include "plugins/jobs/training/generating/parts.hpp"

namespace kinora::core {

// How a training in four bits rounds its weights, as `kinora convert` takes it (low_rule); empty for any other.
nlohmann::json rule_of_weights(const ComponentUse* precision);

// "w.safetensors was trained in nvfp4 (...), and this job generates in fp32 (...)"; "" if both round the same layers by
// the same rule, or if the weights have no note of few bits. The chain is the network's, with the precision's link.
std::string other_precision(const WeightsPaths&, const ComponentUse& precision, const Chain&);

}  // namespace kinora::core
