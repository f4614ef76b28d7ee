// Rotary positions of codes. Channels i and i + d / 2 of a head are a pair; the pairs are divided among
// the axes: time d - 4 (d / 6) channels, rows and columns 2 (d / 6) each; pair j of an axis with n channels
// rotates by position * theta^(-2j / n). 1D: one axis.
#pragma once
#include <ATen/ATen.h>

#include "kinora/rope.hpp"

namespace kinora::ar {

// index: int64 [1 or B, S], position of each token in the sequence -> cosines and sines [1 or B, S, 1, d / 2],
// float64. 3D (rows > 0, with cols): position i has the code before it, i - 1, and rotates by
// that code's frame, row and column; position 0, the beginning, is not rotated, like the first code.
Turns rope_turns(const at::Tensor& index, int64_t head_dim, double theta, int64_t rows, int64_t cols);

}  // namespace kinora::ar
