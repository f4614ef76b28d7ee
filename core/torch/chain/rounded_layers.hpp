// The layers of a network whose operands its precision rounds to few bits.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/torch/chain/chain.hpp"

namespace kinora::core {

// Names of their weights, once the chain is ready; nothing if the precision does not tell
// (kinora/abi/rounding.h), as those of many bits do not. Layers that only text or conditions pass through are
// among them, though they stay high.
std::optional<std::vector<std::string>> rounded_layers(const Chain&);

}  // namespace kinora::core
