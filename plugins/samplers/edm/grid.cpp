#include "plugins/samplers/edm/grid.hpp"

#include <cmath>

namespace kinora {

std::vector<double> karras_grid(const GridOptions& o) {
  if (o.sigma_min >= o.sigma_max)
    throw Error(KINORA_INVALID, "sigma_min = " + detail::toml_float(o.sigma_min) +
                                    " must be below sigma_max = " + detail::toml_float(o.sigma_max));
  const double first = std::pow(o.sigma_max, 1 / o.rho), last = std::pow(o.sigma_min, 1 / o.rho);
  std::vector<double> t{o.sigma_max};
  for (int64_t i = 1; i < o.steps; ++i)
    t.push_back(
        std::pow(first + static_cast<double>(i) / static_cast<double>(o.steps - 1) * (last - first), o.rho));
  t.push_back(0);
  return t;
}

}  // namespace kinora
