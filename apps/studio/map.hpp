// A map of clips: their embeddings in two dimensions.
#pragma once
#include <array>
#include <span>
#include <string>
#include <vector>

namespace kinora::studio {

using Place = std::array<float, 2>;

// Each row's coordinates along the two directions in which rows [n, size] vary most (principal components, by subspace
// iteration). The same rows give the same places: the start is fixed, and each direction's largest part is positive.
std::vector<Place> principal_places(std::span<const float> rows, size_t size);

}  // namespace kinora::studio
