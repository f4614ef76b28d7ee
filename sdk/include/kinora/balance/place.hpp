// The best placement from nothing: bisection over the throughput, with packing as the test whether it can be.
#pragma once
#include <functional>

#include "kinora/balance/pack.hpp"

namespace kinora::balance {

struct Plan {
  std::vector<Group> groups;      // every node is in one
  std::vector<int64_t> workers;   // of each stage, all nodes together
  double throughput = 0;          // inputs of the source a second; 0: not every stage has its workers
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

using Order = std::vector<size_t>;

// What is hard to place goes first: whole nodes, whole GPUs, large workers; what divides evenly then fills
// what is left.
inline std::vector<Order> orders(const std::vector<Stage>& stages, const std::vector<Node>& nodes) {
  Order all(stages.size());
  std::iota(all.begin(), all.end(), 0);
  Node total;
  for (const Node& n : nodes) total.cores += n.cores, total.memory += n.memory, total.gpus += n.gpus;
  const auto sorted = [&](auto key) {
    Order o = all;
    std::stable_sort(o.begin(), o.end(), [&](size_t a, size_t b) { return key(stages[a].need) > key(stages[b].need); });
    return o;
  };
  std::vector<Order> out;
  out.push_back(sorted([](const Need& n) { return std::tuple(n.whole_node, n.gpus, n.cores, n.memory); }));
  out.push_back(sorted([](const Need& n) { return std::tuple(n.whole_node, n.gpus > 0, n.cores, n.gpus); }));
  out.push_back(sorted([&](const Need& n) {
    return std::max({n.whole_node ? 1.0 : 0.0, n.cores / std::max(1e-9, total.cores),
                     n.gpus / std::max<double>(1e-9, static_cast<double>(total.gpus)),
                     n.memory / std::max(1e-9, total.memory)});
  }));
  if (nodes.size() > 8) return out;
  // Few nodes: a single worker decides, and trying costs little. A fixed sequence of shuffles.
  uint64_t random = 1;
  for (int i = 0; i < 12; ++i) {
    Order o = out[0];
    for (size_t k = o.size(); k > 1; --k) {
      random = random * 6364136223846793005ull + 1442695040888963407ull;
      std::swap(o[k - 1], o[(random >> 33) % k]);
    }
    out.push_back(std::move(o));
  }
  return out;
}

inline std::optional<std::vector<Group>> pack(const std::vector<Stage>& stages, const std::vector<Group>& empty,
                                              const std::vector<Order>& orders,
                                              const std::vector<int64_t>& workers) {
  for (const Order& order : orders)
    for (const Spread spread : {Spread::level, Spread::fill}) {
      std::vector<Group> groups = empty;
      const bool fits = std::all_of(order.begin(), order.end(), [&](size_t i) {
        return add_workers(groups, i, stages[i].need, workers[i], spread);
      });
      if (fits) return groups;
    }
  return std::nullopt;
}

// The next throughput above t that one more worker of the slowest stages would give.
inline double next_above(const std::vector<Stage>& stages, const std::vector<double>& work, double t) {
  const auto workers = workers_for(stages, work, t);
  double next = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < stages.size(); ++i) {
    if (work[i] <= 0) continue;
    const double now = static_cast<double>(workers[i]) / work[i];
    next = std::min(next, now > t * (1 + kSlack) ? now
                                                 : static_cast<double>(workers[i] + (stages[i].workers == 0)) / work[i]);
  }
  return next;
}

// The total of a resource over what an input of the source needs of it: no plan is faster.
inline double roof(const std::vector<Stage>& stages, const std::vector<Node>& nodes, const std::vector<double>& work) {
  double t = limit_of_fixed(stages, work);
  const auto limit = [&](auto of_node, auto of_need) {
    double total = 0, each = 0;
    for (const Node& n : nodes) total += of_node(n);
    for (size_t i = 0; i < stages.size(); ++i) each += stages[i].workers == 0 ? work[i] * of_need(stages[i].need) : 0;
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

// Bisects for the highest throughput in [low, high] whose workers `fit` can place, then climbs worker by
// worker. `low` is known to fit, with `best`.
inline Plan highest(const std::vector<Stage>& stages, const std::vector<double>& work, double low, double high,
                    std::vector<Group> best,
                    const std::function<std::optional<std::vector<Group>>(const std::vector<int64_t>&)>& fit) {
  const auto attempt = [&](double t) {
    auto groups = fit(workers_for(stages, work, t));
    if (groups) best = std::move(*groups), low = t;
    return groups.has_value();
  };
  if (!attempt(high))
    for (int i = 0; i < 24 && high > low * (1 + 1e-6); ++i)
      if (const double middle = (low + high) / 2; !attempt(middle)) high = middle;
  for (int i = 0; i < 8; ++i)
    if (const double next = detail::next_above(stages, work, low); !std::isfinite(next) || !attempt(next)) break;
  Plan out{std::move(best), std::vector<int64_t>(stages.size()), 0};
  for (const Group& g : out.groups)
    for (size_t i = 0; i < stages.size(); ++i) out.workers[i] += g.workers[i] * static_cast<int64_t>(g.nodes.size());
  out.throughput = throughput(work, out.workers);
  return out;
}

// stages: in the order of the data. A plan of throughput 0 and no workers where not every stage finds its place.
inline Plan place(const std::vector<Stage>& stages, const std::vector<Node>& nodes) {
  const std::vector<double> work = work_of(stages);
  const auto empty = group(nodes, stages.size());
  const auto orders = detail::orders(stages, nodes);
  const auto fit = [&](const std::vector<int64_t>& workers) { return detail::pack(stages, empty, orders, workers); };
  auto least = fit(workers_for(stages, work, 0));
  if (!least) return {empty, std::vector<int64_t>(stages.size()), 0};
  return highest(stages, work, 0, detail::roof(stages, nodes, work), std::move(*least), fit);
}

}  // namespace kinora::balance
