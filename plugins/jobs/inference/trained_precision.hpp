// The precision that a training or an export notes in the metadata of weights, and a generate job's next to it.
#pragma once
#include <string>

#include "core/torch/chain/chain.hpp"
#include "plugins/jobs/inference/parts.hpp"

namespace kinora::core {

// How a training in four bits rounds its weights, as `kinora convert` takes it (low_rule); empty for any other.
nlohmann::json rule_of_weights(const ComponentUse* precision);

// "w.safetensors is noted as nvfp4 (...), and this job generates in fp32 (...)"; "" if both round the same
// layers by the same rule, or if no file of the weights has such a note. The chain is the network's, with the
// precision's link.
std::string other_precision(const WeightsPaths& weights, const ComponentUse& precision, const Chain&);

}  // namespace kinora::core
