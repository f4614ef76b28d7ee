// Places stage after stage onto nodes, in a few orders: fast, and optimal where one kind of worker or of node
// leaves no choice.
#pragma once
#include "kinora/balance/pack.hpp"

namespace kinora::balance::detail {

using Order = std::vector<size_t>;

// Workers that are hard to place go first: whole nodes, whole GPUs, large workers. Evenly dividing ones then fill
// the rest.
inline std::vector<Order> orders(const std::vector<Stage>& stages, const std::vector<Node>& nodes) {
  Order all(stages.size());
  std::iota(all.begin(), all.end(), 0);
  Node total;
  for (const Node& n : nodes) total.cores += n.cores, total.memory += n.memory, total.gpus += n.gpus;
  const auto sorted = [&](auto key) {
    Order o = all;
    std::stable_sort(o.begin(), o.end(),
                     [&](size_t a, size_t b) { return key(stages[a].need) > key(stages[b].need); });
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
  // With few nodes a single worker matters, and trying is cheap: a fixed sequence of shuffles.
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

inline std::optional<std::vector<Group>> pack(const std::vector<Stage>& stages,
                                              const std::vector<Group>& empty,
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

}  // namespace kinora::balance::detail
