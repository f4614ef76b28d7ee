// Positions that follow each other where a cache evicted tokens between (positions = "relative").
//
// Attention sees differences of positions only. So the queries and the newest keys stay as they are, however far the
// video has gone, and keys before a gap are turned towards it by the number of positions that were evicted there.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "kinora/abi/context.h"
#include "kinora/tensor.hpp"

namespace kinora {

// Column, first and divisor of kinora_rope, which make a position in time of a token's row.
using TimeAxis = std::array<int64_t, 3>;
// Throws Error(KINORA_ERROR_UNSUPPORTED) for a rotation without an axis of time as the cache needs it.
TimeAxis time_axis(const kinora_rope& rope);
// The positions in time of the tokens of a table [1 or B, tokens, columns]. On a GPU it waits for the device.
std::vector<int64_t> times_of(const Tensor& table, const TimeAxis& axis);

// Consecutive tokens whose keys turn by the same number of positions.
struct Turn {
  int64_t tokens, positions;
};
// closed: the number of positions that were evicted before each token, none of them after the last one's.
std::vector<Turn> turns_of(const std::vector<int64_t>& closed);

// k [B, tokens, H, d], rotated as `rope` says -> the same at later positions. The angles are in float64.
Tensor turned(const Tensor& k, const std::vector<Turn>& turns, const kinora_rope& rope);

}  // namespace kinora
