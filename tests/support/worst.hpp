// The worst of several differences. std::max keeps its first argument if the second is NaN, so
// a kernel that writes only NaN would be within any bound.
#pragma once
#include <limits>

namespace kinora::test {

// The larger value, or NaN if either is NaN.
constexpr double worse(double a, double b) { return a != a || a > b ? a : b; }

namespace worse_test {
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
static_assert(!(worse(0, kNone) < 1) && !(worse(kNone, 0) < 1) && worse(1, 2) == 2 && worse(2, 1) == 2);
}  // namespace worse_test

}  // namespace kinora::test
