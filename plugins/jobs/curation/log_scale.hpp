// Which histograms are logarithmic, and where their bars begin; the studio and the report draw them alike.
#pragma once
#include <cstddef>
#include <vector>

namespace kinora::core {

// The smallest number above 0 of values of many sizes, most of them small; 0: they are others, or too many are 0. NaN
// does not count.
double least_of_skewed(const std::vector<double>& values, double low, double high);

// Where each bar begins, and where the last ends. A range from 0 begins with a bar for what is less than `least`.
std::vector<double> log_edges(double low, double least, double high, size_t bars);

}  // namespace kinora::core
