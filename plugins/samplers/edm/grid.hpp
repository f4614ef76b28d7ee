// EDM's grid of noise levels. Karras et al. 2022 (arXiv 2206.00364), equation 5.
#pragma once
#include <cstdint>
#include <vector>

#include "kinora/options.hpp"

namespace kinora {

struct GridOptions {
  int64_t steps = 35;
  double sigma_min = 0.002, sigma_max = 80.0, rho = 7.0;
};

template <class Options>
void describe_grid(Describe<Options>& d) {
  d.option("steps", &Options::steps).range(1, 100000).help("intervals of the grid of noise levels");
  d.option("sigma_min", &Options::sigma_min).above(0).help("last noise level before zero");
  d.option("sigma_max", &Options::sigma_max).above(0).help("first noise level");
  d.option("rho", &Options::rho).above(0).help("curvature of the grid: larger is denser at low noise");
}

// t [steps + 1], descending: `steps` values from sigma_max to sigma_min, then 0. One step visits only sigma_max
// and 0. Throws Error(KINORA_INVALID) unless sigma_min < sigma_max.
std::vector<double> karras_grid(const GridOptions& options);

}  // namespace kinora
