// Converts a noisy latent to another way of mixing signal and noise (kinora/abi/noise.h).
#pragma once
#include <ATen/core/Tensor.h>

#include "kinora/abi/noise.h"

namespace kinora::core {

struct Mixed {
  at::Tensor x;      // [B, ...], float64
  at::Tensor sigma;  // [B], or [B, T] with one value per latent frame
};

// from, to: KINORA_MIX_*. Pure noise, s = 1, has no counterpart in KINORA_MIX_ADD; it becomes sigma =
// 1e6.
Mixed remixed(const Mixed& given, uint32_t from, uint32_t to);

// sigma [B] or [B, T], reshaped to scale x [B, C, T, ...].
at::Tensor scale_for(const at::Tensor& sigma, const at::Tensor& x);

}  // namespace kinora::core
