// EDM's preconditioning. Karras et al. 2022 (arXiv 2206.00364), table 1, rightmost column, with s = sigma,
// d = sigma_data:
//   c_skip = d^2 / (s^2 + d^2)      c_out = s d / sqrt(s^2 + d^2)      c_in = 1 / sqrt(s^2 + d^2)
//   c_noise = ln(s) / 4             weight = (s^2 + d^2) / (s d)^2 = 1 / c_out^2
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

}  // namespace kinora
