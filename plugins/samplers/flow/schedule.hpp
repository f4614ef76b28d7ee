// Noise levels of flow samplers: evenly spaced numbers u, then shift u / (1 + (shift - 1) u), which puts
// more of the steps at high noise (Esser et al. 2024, arXiv 2403.03206), then 0.
#pragma once
#include <cstdint>
#include <vector>

namespace kinora {

// [steps + 1], descending from near 1 to 0. first, last: u of level 0 and of level `points` - 1; levels
// beyond the steps are omitted. The shift is applied once.
std::vector<double> flow_levels(int64_t steps, double shift, double first, double last, int64_t points);

}  // namespace kinora
