// LowLinear on a GPU: the same numbers, but for the order of the sums, and for the sums of FP8's tensor
// cores. See gpu_operands.hpp.
#pragma once
#include <memory>

#include "kinora/abi/cuda.h"
#include "plugins/precision/quantised/low_linear.hpp"

namespace kinora::quantised {

// A weight as rounded for all samples of a call: null, and filled by the first of them.
struct GpuWeight;

// x [B, S, K], w [N, K] of one GPU -> [B, S, N], float32 or, for a float64 x, float64; like_x: in x's dtype.
// figures: null, or added to; must outlive the graph.
Tensor linear_on_gpu(const kinora_cuda_api&, const LowLayer&, std::shared_ptr<const Tokens>,
                     const NoiseSource&, Figures* figures, const Tensor& x, const Tensor& w, bool like_x,
                     std::shared_ptr<GpuWeight>& rounded);

}  // namespace kinora::quantised
