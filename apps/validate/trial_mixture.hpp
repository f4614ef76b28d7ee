// A mixture of three Gaussians on a line: its denoiser and its probability flow are known exactly. For the
// checks of samplers.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>

#include "kinora/abi/noise.h"

namespace kinora::mixture {

inline constexpr std::array kMean = {-1.5, 1.0, 0.3}, kStd = {0.4, 0.7, 0.3}, kWeight = {0.3, 0.5, 0.2};

// x = scale * x0 + level * n
inline double scale_of(uint32_t mix, double level) {
  return mix == KINORA_MIX_RECTIFIED_FLOW ? 1 - level : 1;
}

// E[x0 | x]: the posterior means of the components, by their posterior weights.
inline double exact_denoiser(uint32_t mix, double x, double level) {
  const double a = scale_of(mix, level);
  std::array<double, 3> log_weight{}, mean{};
  double top = -INFINITY, sum = 0, out = 0;
  for (size_t k = 0; k < 3; ++k) {
    const double v = kStd[k] * kStd[k], total = a * a * v + level * level, d = x - a * kMean[k];
    mean[k] = kMean[k] + a * v / total * d;
    log_weight[k] = std::log(kWeight[k]) - 0.5 * (std::log(total) + d * d / total);
    top = std::max(top, log_weight[k]);
  }
  for (size_t k = 0; k < 3; ++k) {
    const double w = std::exp(log_weight[k] - top);
    sum += w;
    out += w * mean[k];
  }
  return out / sum;
}

// The share of x below v at a level.
inline double share_below(uint32_t mix, double v, double level) {
  const double a = scale_of(mix, level);
  double share = 0;
  for (size_t k = 0; k < 3; ++k)
    share += kWeight[k] * 0.5 *
             std::erfc(-(v - a * kMean[k]) / std::sqrt(2 * (a * a * kStd[k] * kStd[k] + level * level)));
  return share;
}

// The probability flow keeps the cumulative distribution on a line, so its end needs no integration.
inline double exact_flow(uint32_t mix, double x, double from, double to) {
  const double target = share_below(mix, x, from);
  double low = -20 * (1 + to), high = 20 * (1 + to);
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    (share_below(mix, middle, to) < target ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace kinora::mixture
