#include "plugins/samplers/flow/schedule.hpp"

#include <algorithm>

namespace kinora {

std::vector<double> flow_levels(int64_t steps, double shift, double first, double last, int64_t points) {
  std::vector<double> out;
  for (int64_t i = 0; i < steps; ++i) {
    const double along = static_cast<double>(i) / static_cast<double>(std::max<int64_t>(points - 1, 1));
    const double u = first + along * (last - first);
    out.push_back(shift * u / (1 + (shift - 1) * u));
  }
  out.push_back(0);
  return out;
}

}  // namespace kinora
