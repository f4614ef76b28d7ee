#include "plugins/jobs/training/packing.hpp"

#include <algorithm>
#include <numeric>

namespace kinora::core {

Packing pack(const std::vector<int64_t>& costs, size_t rows) {
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return costs[a] > costs[b]; });
  Packing out;
  out.rows.resize(rows);
  std::vector<int64_t> cost(rows);
  for (const size_t sample : order) {
    // Every row needs a sample: an empty one comes first, even if all samples cost nothing.
    const auto less = [&](size_t a, size_t b) {
      return std::pair(!out.rows[a].empty(), cost[a]) < std::pair(!out.rows[b].empty(), cost[b]);
    };
    size_t row = 0;
    for (size_t i = 1; i < rows; ++i)
      if (less(i, row)) row = i;
    out.rows[row].push_back(sample);
    cost[row] += costs[sample];
  }
  for (auto& row : out.rows) std::sort(row.begin(), row.end());
  const auto all = static_cast<double>(std::accumulate(cost.begin(), cost.end(), int64_t{0}));
  const auto largest = static_cast<double>(*std::max_element(cost.begin(), cost.end()));
  if (largest > 0) out.efficiency = all / static_cast<double>(rows) / largest;
  return out;
}

}  // namespace kinora::core
