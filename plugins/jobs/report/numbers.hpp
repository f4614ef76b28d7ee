// Numbers as the page shows them: counts and durations as text, and long series as few points.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plugins/jobs/data/words.hpp"

namespace kinora::core::report {

// A point of a measured series.
struct Point {
  double x = 0, y = 0;
};

// The lowest and the highest point of each of `columns` equal parts of the series, in order; short series are
// unchanged.
std::vector<Point> thinned(const std::vector<Point>& points, size_t columns);

// `count` points of the series, each the mean of its neighbours weighted by a Gaussian of `sigma` points.
// With `log` it averages logarithms, so that peaks do not dominate a curve over decades.
std::vector<Point> smoothed(const std::vector<Point>& points, double sigma, size_t count, bool log);

// The maximum of each of `columns` equal parts: for scores, where only peaks matter.
std::vector<double> peaks(const std::vector<double>& values, size_t columns);

using words::count;
using words::duration;

}  // namespace kinora::core::report
