// Assigns blocks to the stages of a pipeline.
#pragma once
#include <cstdint>
#include <vector>

namespace kinora::pp {

// First blocks of the given number of stages, each of at least one block, in order, such that the cost of the costliest stage
// is minimal. Empty: there are fewer blocks than stages.
std::vector<int64_t> balanced(const std::vector<double>& cost_of_block, int64_t stages);

}  // namespace kinora::pp
