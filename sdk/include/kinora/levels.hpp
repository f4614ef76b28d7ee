// Noise levels for losses of the stable tier: one per sample or one per frame, applied to latents.
#pragma once
#include <string>
#include <vector>

#include "kinora/tensor.hpp"

namespace kinora {

// The dtype for elementwise statistics of x: its own, at least float32.
inline Tensor wide(const Tensor& x) { return x.dtype() == KINORA_FLOAT64 ? x : x.to(KINORA_FLOAT32); }

// On x's device, in x's dtype.
inline Tensor as(const Tensor& t, const Tensor& x) { return op("aten::to", "other", {t, x}); }

// s [B], or [B, T] for one per frame, shaped to scale x [B, C, T, ...]; in x's dtype and on its device. Throws
// Error(KINORA_INVALID) with both shapes; `name` is the name of s in the message.
inline Tensor spread(const Tensor& s, const Tensor& x, const char* name = "sigma") {
  const auto from = s.sizes(), to = x.sizes();
  const bool per_frame = from.size() == 2;
  const bool fits = per_frame ? to.size() > 2 && from[0] == to[0] && from[1] == to[2]
                              : from.size() == 1 && !to.empty() && from[0] == to[0];
  if (!fits) {
    const auto text = [](const std::vector<int64_t>& shape) {
      std::string out;
      for (int64_t n : shape) out += (out.empty() ? "" : ", ") + std::to_string(n);
      return "[" + out + "]";
    };
    throw Error(KINORA_INVALID, std::string(name) + " " + text(from) +
                                    " must be [B], or [B, T] for one per frame, for a latent [B, C, T, ...]; the latent is " +
                                    text(to));
  }
  std::vector<int64_t> shape(to.size(), 1);
  shape[0] = from[0];
  if (per_frame) shape[2] = from[1];
  return as(s.reshape(shape), x);
}

// All dimensions of x [B, ...] but the first, for a sample's mean.
inline std::vector<int64_t> of_sample(const Tensor& x) {
  std::vector<int64_t> out;
  for (int64_t d = 1; d < x.dim(); ++d) out.push_back(d);
  return out;
}

}  // namespace kinora
