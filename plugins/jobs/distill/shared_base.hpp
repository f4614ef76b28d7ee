// One copy of frozen weights for several networks that differ by their LoRA matrices.
#pragma once
#include "core/torch/network/network.hpp"

namespace kinora::core {

// Makes the frozen weights of `other` those of `base`, in the same memory, and frees its own. Both have LoRA and links
// of the same kinds, so that they divide the frozen weights alike; what loads them into one loads them into both.
// Throws Error(KINORA_ERROR_INVALID) if they are divided differently.
void share_base(Network& base, Network& other);

}  // namespace kinora::core
