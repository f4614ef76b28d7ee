// Draws from a distribution within limits: the uniform number u that its inverse distribution function would take
// is mapped to the share of the numbers that give a value within the limits, low + u (high - low). The same number
// gives the same level in every layout and after a resume.
#pragma once
#include <cmath>
#include <string>

#include "kinora/error.hpp"
#include "kinora/tensor.hpp"

namespace kinora {

// The share of a standard normal distribution below z.
inline double normal_share_below(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

struct Share {
  double low = 0, high = 1;
  // Throws Error(KINORA_ERROR_INVALID) if less than 1e-9 of the distribution is within the limits: few numbers are
  // left to tell its levels apart.
  static Share between(double low, double high) {
    if (high - low < 1e-9)
      throw Error(KINORA_ERROR_INVALID,
                  "sigma_min and sigma_max leave almost no level of the distribution; widen them, change the "
                  "distribution, or set limits = \"clamp\"");
    return {low, high};
  }
  // uniform: in (0, 1), float64.
  Tensor of(const Tensor& uniform) const {
    return low == 0 && high == 1 ? uniform : uniform * (high - low) + low;
  }
};

}  // namespace kinora
