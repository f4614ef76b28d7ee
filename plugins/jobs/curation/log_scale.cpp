#include "plugins/jobs/curation/log_scale.hpp"

#include <algorithm>
#include <cmath>

namespace kinora::core {

double least_of_skewed(const std::vector<double>& values, double low, double high) {
  constexpr double kDecades = 100, kFirst = 8;
  constexpr int64_t kZeros = 4;  // at most one of so many is 0
  if (low < 0) return 0;
  int64_t all = 0, zeros = 0, first = 0;
  double least = high;
  for (const double v : values) {
    all += !std::isnan(v);
    zeros += v == 0;
    if (v > 0) least = std::min(least, v);
  }
  for (const double v : values) first += v > 0 && v < least + (high - least) / kFirst;
  return high >= kDecades * least && kZeros * zeros <= all && 2 * first > all - zeros ? least : 0;
}

std::vector<double> log_edges(double low, double least, double high, size_t bars) {
  std::vector<double> out(bars + 1, high);
  const size_t from = low < least ? 1 : 0;
  out[0] = low;
  for (size_t i = from; i < bars; ++i)
    out[i] = i == from ? least
                       : std::exp(std::lerp(std::log(least), std::log(high),
                                            static_cast<double>(i - from) / static_cast<double>(bars - from)));
  return out;
}

}  // namespace kinora::core
