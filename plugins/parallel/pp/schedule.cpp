#include "plugins/parallel/pp/schedule.hpp"

#include <algorithm>
#include <limits>

#include "kinora/error.hpp"

namespace kinora::pp {

namespace {

// Forward (or backward) number k of the rank: P microbatches of its first stage (its last), then P of the
// next, and so on.
Action number(int64_t k, bool forward, const Pipe& p) {
  const int64_t round = p.ranks * p.per_rank, turn = k % round / p.ranks,
                of_rank = forward ? turn : p.per_rank - 1 - turn;
  return {forward, of_rank * p.ranks + p.rank, k / round * p.ranks + k % p.ranks};
}

}  // namespace

std::vector<Action> schedule(const std::string& name, const Pipe& p, int64_t n_microbatches) {
  const bool interleaved = name == "interleaved";
  if (interleaved && n_microbatches % p.ranks)
    throw Error(KINORA_ERROR_INVALID,
                "pp: the interleaved schedule takes a multiple of its " + std::to_string(p.ranks) +
                    " ranks as microbatches (accumulate), not " + std::to_string(n_microbatches) + "; " +
                    std::to_string((n_microbatches / p.ranks + 1) * p.ranks) + " would do");
  const int64_t all = n_microbatches * p.per_rank, behind = p.ranks - p.rank - 1;
  int64_t ahead = name == "gpipe" ? all : interleaved ? 2 * behind + (p.per_rank - 1) * p.ranks : behind;
  ahead = std::min(ahead, all);
  std::vector<Action> out;
  for (int64_t k = 0; k < all + ahead; ++k) {
    if (k < all) out.push_back(number(k, true, p));
    if (k >= ahead) out.push_back(number(k - ahead, false, p));
  }
  return out;
}

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
