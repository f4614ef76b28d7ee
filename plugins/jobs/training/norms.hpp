// Norms of gradients and weights, and the factor that clips a gradient. Their bits do not depend on the number
// of threads.
#pragma once
#include <functional>
#include <vector>

#include "core/torch/tensors/parameter.hpp"

namespace kinora::core {

// The gradient's norm, in float64. On several ranks: share is 1 / number of ranks that hold the same numbers,
// and sum adds over all ranks; the result is then the whole gradient's norm.
double gradient_norm(const std::vector<Leaf>& leaves,
                     const std::function<double(const Leaf&, const Piece&)>& share = {},
                     const std::function<double(double)>& sum = {});
// The same for all weights.
double weight_norm(const std::vector<Leaf>& leaves,
                   const std::function<double(const Leaf&, const Piece&)>& share = {},
                   const std::function<double(double)>& sum = {});
// min(1, max_norm / (norm + 1e-6)).
double clip_factor(double norm, double max_norm);

}  // namespace kinora::core
