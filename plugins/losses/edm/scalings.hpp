// EDM's preconditioning. Karras et al. 2022 (arXiv 2206.00364), table 1, rightmost column, with s = sigma, d
// = sigma_data:
//   c_skip = d^2 / (s^2 + d^2)    c_out = s d / sqrt(s^2 + d^2)    c_in = 1 / sqrt(s^2 + d^2)    c_noise =
//   ln(s) / 4 weight = (s^2 + d^2) / (s d)^2 = 1 / c_out^2
#pragma once
#include "kinora/tensor.hpp"

namespace kinora {

// Float64, each of sigma's shape.
struct Scalings {
  Tensor skip, out, in, noise, weight;
};

inline Scalings scalings(const Tensor& sigma, double sigma_data) {
  const Tensor s = sigma.to(KINORA_FLOAT64);
  const Tensor total = square(s) + sigma_data * sigma_data, root = sqrt(total);
  const Tensor one = full_like(total, 1);
  return {sigma_data * sigma_data * (one / total), s * sigma_data / root, one / root, log(s) / 4,
          total / square(s * sigma_data)};
}

// The dtype for elementwise statistics of x: its own, and float32 at least.
inline Tensor wide(const Tensor& x) { return x.dtype() == KINORA_FLOAT64 ? x : x.to(KINORA_FLOAT32); }

// On x's device, in x's dtype.
inline Tensor as(const Tensor& t, const Tensor& x) { return op("aten::to", "other", {t, x}); }

// s [B], or [B, T] for per-frame levels, shaped to scale x [B, C, T, ...]; in x's dtype and on its device.
// Throws Error(KINORA_INVALID) that says both shapes.
inline Tensor spread(const Tensor& s, const Tensor& x) {
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
    throw Error(KINORA_INVALID, "sigma " + text(from) +
                                    " must be [B], or [B, T] a frame, of a latent [B, C, T, ...]; that is " +
                                    text(to));
  }
  std::vector<int64_t> shape(to.size(), 1);
  shape[0] = from[0];
  if (per_frame) shape[2] = from[1];
  return as(s.reshape(shape), x);
}

}  // namespace kinora
