// Places workers onto nodes. Nodes in the same state form one group, so that 4,096 nodes cost as much as ten:
// placing the workers of a stage gives each group's nodes q or q + 1 of them, and so splits at most one
// group.
#pragma once
#include <map>
#include <numeric>
#include <optional>

#include "plugins/engines/common/balance/stages.hpp"

namespace kinora::balance {

constexpr double kSlack = 1e-9;  // sums of fractions such as a tenth of a core

// The free resources of a node.
struct Space {
  double cores = 0, memory = 0, nvdec = 0, nvenc = 0;
  std::vector<double> gpus;  // free part of each device
  bool untouched = true;

  explicit Space(const Node& n)
      : cores(n.cores),
        memory(n.memory),
        nvdec(n.nvdec),
        nvenc(n.nvenc),
        gpus(static_cast<size_t>(n.gpus), 1.0) {}

  // The number of workers that fit.
  int64_t fit(const Need& need) const {
    if (need.whole_node) return untouched ? std::min<int64_t>(1, fit_beside(need)) : 0;
    return fit_beside(need);
  }
  // Takes the resources of `n` workers, which must fit.
  void take(const Need& need, int64_t n) {
    if (n == 0) return;
    untouched = false;
    const auto count = static_cast<double>(n);
    cores -= count * need.cores;
    memory -= count * need.memory;
    nvdec -= count * need.nvdec;
    nvenc -= count * need.nvenc;
    for (int64_t i = 0; i < n && need.gpus > 0; ++i) take_gpus(need.gpus);
    if (need.whole_node) cores = memory = nvdec = nvenc = 0, std::fill(gpus.begin(), gpus.end(), 0.0);
  }

 private:
  int64_t fit_beside(const Need& need) const {
    int64_t n = std::numeric_limits<int32_t>::max();
    const auto limit = [&n](double free, double each) {
      if (each > 0) n = std::min(n, static_cast<int64_t>(std::floor(std::max(0.0, free) / each + kSlack)));
    };
    limit(cores, need.cores);
    limit(memory, need.memory);
    limit(nvdec, need.nvdec);
    limit(nvenc, need.nvenc);
    if (need.gpus <= 0) return n;
    int64_t on_gpus = 0;
    for (const double free : gpus)
      on_gpus +=
          need.gpus < 1 ? static_cast<int64_t>(std::floor(free / need.gpus + kSlack)) : free >= 1 - kSlack;
    if (need.gpus >= 1)
      on_gpus = static_cast<int64_t>(static_cast<double>(on_gpus) / std::ceil(need.gpus - kSlack));
    return std::min(n, on_gpus);
  }
  // A fraction goes to the device with the least room that suffices, so that whole devices stay free.
  void take_gpus(double share) {
    for (double left = share; left > kSlack; left -= 1) {
      double* best = nullptr;
      for (double& free : gpus)
        if (free + kSlack >= std::min(share, 1.0) && (!best || free < *best)) best = &free;
      if (best) *best -= share < 1 ? share : 1.0;
      if (share < 1) return;
    }
  }
};

// Identical nodes with the same workers.
struct Group {
  Node node;
  Space space;
  std::vector<int64_t> workers;  // of each stage, on each of the nodes
  std::vector<int64_t> nodes;    // indices of the nodes
};

inline std::vector<Group> group(const std::vector<Node>& nodes, size_t n_stages) {
  std::vector<Group> out;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto same =
        std::find_if(out.begin(), out.end(), [&](const Group& g) { return g.node == nodes[i]; });
    if (same == out.end())
      out.push_back({nodes[i], Space(nodes[i]), std::vector<int64_t>(n_stages), {static_cast<int64_t>(i)}});
    else
      same->nodes.push_back(static_cast<int64_t>(i));
  }
  return out;
}

// level: the remaining resources become equal everywhere, so every kind of node stays usable for every kind
// of worker. fill: the fullest node first, so whole nodes stay free.
enum class Spread { level, fill };

namespace detail {

// The free share of a node, for the resource that this need uses most.
inline double left_of(const Group& g, const Need& need) {
  if (need.gpus > 0 && g.node.gpus > 0)
    return std::accumulate(g.space.gpus.begin(), g.space.gpus.end(), 0.0) / static_cast<double>(g.node.gpus);
  return g.node.cores > 0 ? g.space.cores / g.node.cores : 0;
}
inline double step_of(const Group& g, const Need& need) {
  if (need.gpus > 0 && g.node.gpus > 0) return need.gpus / static_cast<double>(g.node.gpus);
  return g.node.cores > 0 ? need.cores / g.node.cores : 0;
}

// Gives `n` workers to each of the first `nodes` nodes of a group; the other nodes become a separate group.
inline void give(std::vector<Group>& groups, size_t at, size_t nodes, size_t stage, const Need& need,
                 int64_t n) {
  if (n == 0 || nodes == 0) return;
  if (nodes < groups[at].nodes.size()) {
    Group rest = groups[at];
    rest.nodes.erase(rest.nodes.begin(), rest.nodes.begin() + static_cast<std::ptrdiff_t>(nodes));
    groups[at].nodes.resize(nodes);
    groups.push_back(std::move(rest));
  }
  groups[at].space.take(need, n);
  groups[at].workers[stage] += n;
}

// The value of a node to the cluster: its shares of the total resources.
inline double worth_of(const Group& of, const std::vector<Group>& groups) {
  double worth = 0;
  const auto add = [&](auto resource) {
    double all = 0;
    for (const Group& g : groups) all += static_cast<double>(g.nodes.size()) * resource(g.node);
    if (all > 0) worth += resource(of.node) / all;
  };
  add([](const Node& n) { return n.cores; });
  add([](const Node& n) { return n.memory; });
  add([](const Node& n) { return static_cast<double>(n.gpus); });
  return worth;
}

// The fullest nodes first; for a worker that needs a whole node, the least valuable nodes first.
inline void add_filling(std::vector<Group>& groups, size_t stage, const Need& need, int64_t n) {
  std::vector<double> key;
  for (const Group& g : groups) key.push_back(need.whole_node ? worth_of(g, groups) : left_of(g, need));
  std::vector<size_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key[a] < key[b]; });
  for (const size_t at : order) {
    const int64_t each = groups[at].space.fit(need);
    if (each == 0 || n == 0) continue;
    const int64_t full = std::min<int64_t>(n / each, static_cast<int64_t>(groups[at].nodes.size()));
    const bool more = full < static_cast<int64_t>(groups[at].nodes.size()) && n % each > 0;
    const size_t rest = groups.size();
    give(groups, at, static_cast<size_t>(full), stage, need, each);
    n -= full * each;
    if (!more) continue;
    give(groups, full > 0 ? rest : at, 1, stage, need, n);
    n = 0;
  }
}

inline void add_level(std::vector<Group>& groups, size_t stage, const Need& need, int64_t n) {
  std::vector<int64_t> fit, q(groups.size());
  for (const Group& g : groups) fit.push_back(g.space.fit(need));
  const auto at_level = [&](double level) {
    int64_t sum = 0;
    for (size_t i = 0; i < groups.size(); ++i) {
      const double step = step_of(groups[i], need);
      const double wanted = step > 0 ? std::floor((left_of(groups[i], need) - level) / step) : 0;
      q[i] = std::clamp<int64_t>(static_cast<int64_t>(std::clamp(wanted, 0.0, 1e9)), 0, fit[i]);
      sum += q[i] * static_cast<int64_t>(groups[i].nodes.size());
    }
    return sum;
  };
  double low = 0, high = 1;  // at_level(high) is too little or exactly right
  for (int i = 0; i < 24; ++i) (at_level((low + high) / 2) > n ? low : high) = (low + high) / 2;
  n -= at_level(high);
  const size_t known = groups.size();
  for (size_t i = 0; i < known; ++i) {
    const auto nodes = static_cast<int64_t>(groups[i].nodes.size());
    const int64_t more = q[i] < fit[i] ? std::min(n, nodes) : 0;
    n -= more;
    const size_t rest = groups.size();
    if (more > 0) give(groups, i, static_cast<size_t>(more), stage, need, q[i] + 1);
    if (more == 0) give(groups, i, static_cast<size_t>(nodes), stage, need, q[i]);
    if (more > 0 && more < nodes) give(groups, rest, static_cast<size_t>(nodes - more), stage, need, q[i]);
  }
  if (n > 0) add_filling(groups, stage, need, n);  // stages without cores or GPUs have no level
}

}  // namespace detail

// Adds n workers of a stage; returns false and leaves the groups unchanged if they do not fit.
inline bool add_workers(std::vector<Group>& groups, size_t stage, const Need& need, int64_t n,
                        Spread spread) {
  if (n == 0) return true;
  int64_t room = 0;
  for (const Group& g : groups) room += g.space.fit(need) * static_cast<int64_t>(g.nodes.size());
  if (room < n) return false;
  if (spread == Spread::level && !need.whole_node)
    detail::add_level(groups, stage, need, n);
  else
    detail::add_filling(groups, stage, need, n);
  return true;
}

namespace detail {

using Order = std::vector<size_t>;

// Workers that are hard to place go first: whole nodes, whole GPUs, large workers. Evenly dividing ones then
// fill the rest.
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

// Places stage after stage in each of the orders until one fits: fast, and optimal where one kind of worker
// or of node leaves no choice.
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

}  // namespace detail

}  // namespace kinora::balance
