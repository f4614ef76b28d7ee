#include "kernels/cpu/luma_histogram.hpp"

#include <cmath>
#include <limits>

namespace kinora {

LumaHistogram::LumaHistogram(int bins) : bins_(bins) {}

void LumaHistogram::add(const uint8_t* luma, int n) {
  int i = 0;
  for (; i + 4 <= n; i += 4)
    for (size_t lane = 0; lane < 4; ++lane) ++counts_[lane][luma[i + static_cast<int>(lane)]];
  for (; i < n; ++i) ++counts_[0][luma[i]];
}

std::vector<float> LumaHistogram::take() {
  std::vector<uint32_t> counts(static_cast<size_t>(bins_));
  for (size_t value = 0; value < 256; ++value)
    for (auto& lane : counts_) counts[value * counts.size() / 256] += lane[value];
  counts_ = {};
  double squares = 0;
  for (const uint32_t count : counts) squares += static_cast<double>(count) * static_cast<double>(count);
  const double length = std::sqrt(squares);
  const auto scale = static_cast<float>(length > std::numeric_limits<double>::epsilon() ? 1 / length : 0.0);
  std::vector<float> out;
  for (const uint32_t count : counts) out.push_back(static_cast<float>(count) * scale);
  return out;
}

double correlation(const std::vector<float>& a, const std::vector<float>& b) {
  struct Lane {
    double a = 0, b = 0, ab = 0, aa = 0, bb = 0;
    void add(double x, double y) { a += x, b += y, ab += x * y, aa += x * x, bb += y * y; }
  };
  Lane lanes[2], rest;
  size_t i = 0;
  for (; i + 4 <= a.size(); i += 4)
    for (size_t k = 0; k < 4; ++k)
      lanes[k % 2].add(static_cast<double>(a[i + k]), static_cast<double>(b[i + k]));
  for (; i < a.size(); ++i) rest.add(static_cast<double>(a[i]), static_cast<double>(b[i]));
  const auto total = [&](double Lane::*member) { return lanes[0].*member + lanes[1].*member + rest.*member; };
  const double scale = 1.0 / static_cast<double>(a.size());
  const double sum_a = total(&Lane::a), sum_b = total(&Lane::b);
  const double covariance = total(&Lane::ab) - sum_a * sum_b * scale;
  const double variances =
      (total(&Lane::aa) - sum_a * sum_a * scale) * (total(&Lane::bb) - sum_b * sum_b * scale);
  return std::abs(variances) > std::numeric_limits<double>::epsilon() ? covariance / std::sqrt(variances)
                                                                      : 1.0;
}

}  // namespace kinora
