// kinora bench balance: the balancer against the optimum of small clusters and a bound of large ones, and in
// simulated time.
#include "apps/bench/bench.hpp"
#include "plugins/engines/common/balance/trial.hpp"

namespace kinora {
namespace {

using nlohmann::json;

// Results of the pipelines on clusters of one size.
struct Tally {
  int64_t pipelines = 0, exact = 0, on_nodes = 0, short_of = 0;
  double worst = 1, sum = 0, slowest = 0;
  void add(const PlacedTrial& t) {
    const double share = t.throughput / t.bound;
    ++pipelines;
    exact += t.bound_kind == "exact";
    on_nodes += t.bound_kind == "whole-on-nodes";
    short_of += share < 0.99;
    worst = std::min(worst, share);
    sum += share;
    slowest = std::max(slowest, t.milliseconds);
  }
  json line() const {
    return {{"pipelines", pipelines},
            {"against_the_optimum", exact},
            {"against_whole_workers_on_nodes", on_nodes},
            {"of_bound", sum / static_cast<double>(pipelines)},
            {"worst", worst},
            {"below_0.99", short_of},
            {"milliseconds", slowest}};
  }
};

}  // namespace

json bench_balance(core::Runtime&, const BenchOptions& options) {
  std::mt19937 random(7);
  json out;
  bool within = true;
  int64_t all = 0;
  for (const int64_t nodes : {1, 2, 3, 4, 8, 16, 64, 256, 1024, 4096}) {
    Tally tally;
    for (int i = 0; i < 10 * options.repeat; ++i)
      tally.add(place_trial(random_trial(random, nodes), nodes <= 8));
    out["placed"][std::to_string(nodes)] = tally.line();
    within = within && tally.worst >= 0.99 && tally.slowest < 100;
    all += tally.pipelines;
  }
  double worst = 1, sum = 0;
  int64_t moves = 0, runs = 0;
  for (const int64_t nodes : {4, 16, 64, 512})
    for (int i = 0; i < options.repeat; ++i, ++runs) {
      const Simulated s = simulate(random_trial(random, nodes), {}, random());
      worst = std::min(worst, s.after_settling);
      sum += s.after_settling;
      moves += s.moves_after_settling;
    }
  out["simulated"] = {{"runs", runs},
                      {"of_bound", sum / static_cast<double>(runs)},
                      {"worst", worst},
                      {"rounds_of_moves_a_run", static_cast<double>(moves) / static_cast<double>(runs)}};
  within = within && worst >= 0.95;
  out["pipelines"] = all;
  out["within"] = within;
  return out;
}

}  // namespace kinora
