// Which blocks each stage of a pipeline has.
#pragma once
#include <cstdint>
#include <vector>

namespace kinora::pp {

// First blocks of so many stages, each of at least one block, in order, such that the costliest stage costs
// as little as it can. Empty: there are fewer blocks than stages.
std::vector<int64_t> balanced(const std::vector<double>& cost_of_block, int64_t stages);

}  // namespace kinora::pp
