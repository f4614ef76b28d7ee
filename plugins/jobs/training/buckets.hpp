// Divides the samples of a step into microbatches of one size each.
#pragma once
#include <vector>

#include "plugins/jobs/training/packing.hpp"
#include "plugins/jobs/windows/model_outline.hpp"

namespace kinora::core {

// sizes: of the latents, at least one a microbatch. Each size gets a microbatch, and each further microbatch
// goes to the size whose microbatches have the most tokens, so that the largest is as small as it can be. The
// samples of a size are divided evenly. Microbatches come with the largest samples first, so that ranks
// compute on like ones at the same time. Throws Error(KINORA_ERROR_INVALID) for more sizes than microbatches.
Packing in_buckets(const std::vector<LatentSize>& sizes, size_t microbatches);

// The same as packed rows, by numbers of positions, unless are_buckets.
Packing divided(const std::vector<LatentSize>& sizes, size_t microbatches, bool are_buckets);

// The number of positions of a latent.
inline int64_t positions_of(const LatentSize& size) { return size[0] * size[1] * size[2]; }

}  // namespace kinora::core
