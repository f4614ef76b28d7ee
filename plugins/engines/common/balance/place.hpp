// Decides which workers of which stage run on which node. Pure functions over measured service times; no
// clock, no threads, no state.
//
//   Estimate seconds(10);                       // one per stage; add() the time of each sample
//   Plan plan = place(stages, nodes);           // without a previous plan
//   Plan next = rebalance(stages, nodes, plan, {}).plan;   // later, with other times: `plan` itself unless a
//   change pays
//
// A pipeline runs as fast as its slowest stage: with n_i workers, s_i seconds per sample and r_i samples per
// input of the source, t = min_i n_i / (r_i s_i) inputs per second. place() maximises t over whole workers
// that fit on the nodes: by bisection over t, with packing as the feasibility test.
#pragma once
#include <functional>

#include "plugins/engines/common/balance/columns.hpp"

namespace kinora::balance {

struct Plan {
  std::vector<Group> groups;     // each node is in exactly one
  std::vector<int64_t> workers;  // of each stage, on all nodes together
  double throughput = 0;         // inputs of the source per second; 0: some stage has no worker
  bool operator==(const Plan& o) const { return workers == o.workers && throughput == o.throughput; }

  // [node][stage]
  std::vector<std::vector<int64_t>> by_node() const {
    size_t n = 0;
    for (const Group& g : groups) n += g.nodes.size();
    std::vector<std::vector<int64_t>> out(n);
    for (const Group& g : groups)
      for (const int64_t node : g.nodes) out[static_cast<size_t>(node)] = g.workers;
    return out;
  }
};

namespace detail {

// The next throughput above t that one more worker of each slowest stage would give.
inline double next_above(const std::vector<Stage>& stages, const std::vector<double>& work, double t) {
  const auto workers = workers_for(stages, work, t);
  double next = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < stages.size(); ++i) {
    if (work[i] <= 0) continue;
    const double now = static_cast<double>(workers[i]) / work[i];
    next = std::min(next, now > t * (1 + kSlack)
                              ? now
                              : static_cast<double>(workers[i] + (stages[i].workers == 0)) / work[i]);
  }
  return next;
}

// The total of a resource divided by the need of one input of the source: an upper bound for every plan.
inline double roof(const std::vector<Stage>& stages, const std::vector<Node>& nodes,
                   const std::vector<double>& work) {
  double t = limit_of_fixed(stages, work);
  const auto limit = [&](auto of_node, auto of_need) {
    double total = 0, each = 0;
    for (const Node& n : nodes) total += of_node(n);
    for (size_t i = 0; i < stages.size(); ++i)
      each += stages[i].workers == 0 ? work[i] * of_need(stages[i].need) : 0;
    if (each > 0) t = std::min(t, total / each);
  };
  limit([](const Node& n) { return n.cores; }, [](const Need& n) { return n.cores; });
  limit([](const Node& n) { return static_cast<double>(n.gpus); }, [](const Need& n) { return n.gpus; });
  limit([](const Node& n) { return n.memory; }, [](const Need& n) { return n.memory; });
  limit([](const Node& n) { return n.nvdec; }, [](const Need& n) { return n.nvdec; });
  limit([](const Node& n) { return n.nvenc; }, [](const Need& n) { return n.nvenc; });
  limit([](const Node&) { return 1.0; }, [](const Need& n) { return n.whole_node ? 1.0 : 0.0; });
  return std::isfinite(t) ? t : 0;
}

}  // namespace detail

// Bisects for the highest throughput in [low, high] whose workers `fit` can place, then adds workers one by
// one. `low` is known to fit, with `best`. tolerance: relative, for the bisection.
inline Plan highest(const std::vector<Stage>& stages, const std::vector<double>& work, double low,
                    double high, std::vector<Group> best,
                    const std::function<std::optional<std::vector<Group>>(const std::vector<int64_t>&)>& fit,
                    double tolerance = 1e-6) {
  const auto attempt = [&](double t) {
    auto groups = fit(workers_for(stages, work, t));
    if (groups) best = std::move(*groups), low = t;
    return groups.has_value();
  };
  if (!attempt(high))
    for (int i = 0; i < 24 && high > low * (1 + tolerance); ++i)
      if (const double middle = (low + high) / 2; !attempt(middle)) high = middle;
  for (int i = 0; i < 8; ++i)
    if (const double next = detail::next_above(stages, work, low); !std::isfinite(next) || !attempt(next))
      break;
  Plan out{std::move(best), std::vector<int64_t>(stages.size()), 0};
  for (const Group& g : out.groups)
    for (size_t i = 0; i < stages.size(); ++i)
      out.workers[i] += g.workers[i] * static_cast<int64_t>(g.nodes.size());
  out.throughput = throughput(work, out.workers);
  return out;
}

// stages: in the order of the data. If some stage does not fit, returns a plan of throughput 0 without
// workers.
inline Plan place(const std::vector<Stage>& stages, const std::vector<Node>& nodes) {
  const std::vector<double> work = work_of(stages);
  const auto empty = group(nodes, stages.size());
  const auto orders = detail::orders(stages, nodes);
  const auto fit = [&](const std::vector<int64_t>& workers) {
    return detail::pack(stages, empty, orders, workers);
  };
  auto least = fit(workers_for(stages, work, 0));
  if (!least) return {empty, std::vector<int64_t>(stages.size()), 0};
  const double roof = detail::roof(stages, nodes, work);
  Plan plan = highest(stages, work, 0, roof, std::move(*least), fit);
  // On one node there is no choice; with very many kinds of nodes, column generation takes too long.
  constexpr size_t kMostKinds = 12;
  constexpr double kGood = 0.999;
  if (nodes.size() == 1 || empty.size() > kMostKinds || plan.throughput >= kGood * roof) return plan;
  detail::Columns columns(stages, empty);
  const double reached = plan.throughput;
  Plan better = highest(
      stages, work, reached, roof, std::move(plan.groups),
      [&](const std::vector<int64_t>& workers) { return columns.place(workers, orders); }, 1 - kGood);
  return better;
}

}  // namespace kinora::balance
