// The two fitted constants, Efficiency::matrix and Efficiency::link: the pair whose predictions of measured
// runs are worst by the least.
#pragma once
#include <vector>

#include "apps/planner/layout.hpp"

namespace kinora::core::plan {

// A measured run.
struct Measured {
  Problem problem;
  Layout layout;
  double tokens_per_gpu = 0;  // a second
};

// Predicted over measured, less 1.
double error_of(const Measured&, const Efficiency&);

// Shares of 0.30, 0.31, ... 1.00 of both. The other members are `start`'s.
Efficiency fit(const std::vector<Measured>&, Efficiency start = {});

}  // namespace kinora::core::plan
