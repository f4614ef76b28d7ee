#include "plugins/parallel/pp/stages.hpp"

#include <algorithm>
#include <limits>

namespace kinora::pp {

// best[s][b]: the least cost of the costliest of s stages that have the first b blocks.
std::vector<int64_t> balanced(const std::vector<double>& cost, int64_t stages) {
  const size_t n = cost.size(), S = static_cast<size_t>(stages);
  if (n < S || S == 0) return {};
  std::vector<double> before(n + 1, 0);
  for (size_t b = 0; b < n; ++b) before[b + 1] = before[b] + cost[b];
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(S + 1, std::vector<double>(n + 1, never));
  std::vector<std::vector<size_t>> first(S + 1, std::vector<size_t>(n + 1, 0));
  best[0][0] = 0;
  for (size_t s = 1; s <= S; ++s)
    for (size_t b = s; b <= n; ++b)
      for (size_t from = s - 1; from < b; ++from) {
        const double worst = std::max(best[s - 1][from], before[b] - before[from]);
        if (worst < best[s][b]) best[s][b] = worst, first[s][b] = from;
      }
  std::vector<int64_t> out(S);
  for (size_t s = S, b = n; s > 0; b = first[s][b], --s) out[s - 1] = static_cast<int64_t>(first[s][b]);
  return out;
}

}  // namespace kinora::pp
