// A noisy latent in the units of another way of mixing (kinora/abi/noise.h).
#pragma once
#include <ATen/core/Tensor.h>

#include "kinora/abi/noise.h"

namespace kinora::core {

struct Mixed {
  at::Tensor x;      // [B, ...], float64
  at::Tensor sigma;  // [B], or of a video one a latent frame [B, T]
};

// from, to: KINORA_MIX_*. Pure noise, s = 1, has no counterpart in KINORA_MIX_ADD; it is taken as sigma =
// 1e6.
Mixed remixed(const Mixed& given, uint32_t from, uint32_t to);

// sigma [B] or [B, T], shaped to scale x [B, C, T, ...].
at::Tensor scale_for(const at::Tensor& sigma, const at::Tensor& x);

}  // namespace kinora::core
