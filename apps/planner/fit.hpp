// Fits the two constants Efficiency::matrix and Efficiency::link: finds the pair with the smallest maximum
// error over measured runs.
#pragma once
#include <vector>

#include "apps/planner/layout.hpp"

namespace kinora::core::plan {

// A measured run.
struct Measured {
  Problem problem;
  Layout layout;
  double tokens_per_gpu = 0;  // per second
};

// Predicted / measured - 1.
double error_of(const Measured&, const Efficiency&);

// Searches 0.30, 0.31, ... 1.00 for both. The other members are `start`'s.
Efficiency fit(const std::vector<Measured>&, Efficiency start = {});

}  // namespace kinora::core::plan
