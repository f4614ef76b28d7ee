// A measured series made small enough to draw, without hiding its extremes.
#pragma once
#include <cstddef>
#include <vector>

namespace kinora::core::report {

struct Point {
  double x = 0, y = 0;
};

// Of each of `columns` equal parts of the series its lowest and its highest point, in order; short series
// stay as they are.
std::vector<Point> thinned(const std::vector<Point>& points, size_t columns);

// At `count` points of the series the mean of its neighbours, weighted by a Gaussian of `sigma` points; of
// the logarithms if `log`, so that a curve over decades is not drawn to its peaks.
std::vector<Point> smoothed(const std::vector<Point>& points, double sigma, size_t count, bool log);

// The highest of each of `columns` equal parts: for scores, where only peaks matter.
std::vector<double> peaks(const std::vector<double>& values, size_t columns);

}  // namespace kinora::core::report
