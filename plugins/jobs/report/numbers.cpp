#include "plugins/jobs/report/numbers.hpp"

#include <algorithm>
#include <cmath>

namespace kinora::core::report {

std::vector<Point> thinned(const std::vector<Point>& points, size_t columns) {
  if (points.size() <= 2 * columns) return points;
  std::vector<Point> out;
  const auto lower = [](const Point& a, const Point& b) { return a.y < b.y; };
  for (size_t c = 0; c < columns; ++c) {
    const auto first = points.begin() + static_cast<std::ptrdiff_t>(points.size() * c / columns);
    const auto last = points.begin() + static_cast<std::ptrdiff_t>(points.size() * (c + 1) / columns);
    auto [low, high] = std::minmax_element(first, last, lower);
    if (high < low) std::swap(low, high);
    out.push_back(*low);
    if (high != low) out.push_back(*high);
  }
  return out;
}

std::vector<Point> smoothed(const std::vector<Point>& points, double sigma, size_t count, bool log) {
  std::vector<Point> out;
  const size_t n = points.size(), drawn = std::min(n, count);
  const auto reach = static_cast<size_t>(std::ceil(3 * sigma));
  for (size_t k = 0; k < drawn; ++k) {
    const size_t at = drawn == 1 ? 0 : k * (n - 1) / (drawn - 1);
    double sum = 0, weights = 0;
    for (size_t i = at > reach ? at - reach : 0; i < std::min(n, at + reach + 1); ++i) {
      const double d = (static_cast<double>(i) - static_cast<double>(at)) / sigma;
      const double weight = std::exp(-0.5 * d * d);
      sum += weight * (log ? std::log(points[i].y) : points[i].y);
      weights += weight;
    }
    out.push_back({points[at].x, log ? std::exp(sum / weights) : sum / weights});
  }
  return out;
}

std::vector<double> peaks(const std::vector<double>& values, size_t columns) {
  if (values.size() <= columns) return values;
  std::vector<double> out;
  for (size_t c = 0; c < columns; ++c)
    out.push_back(
        *std::max_element(values.begin() + static_cast<std::ptrdiff_t>(values.size() * c / columns),
                          values.begin() + static_cast<std::ptrdiff_t>(values.size() * (c + 1) / columns)));
  return out;
}

}  // namespace kinora::core::report
