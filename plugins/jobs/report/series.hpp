// Reduces a measured series to few points for drawing, without hiding its extremes.
#pragma once
#include <cstddef>
#include <vector>

namespace kinora::core::report {

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

}  // namespace kinora::core::report
