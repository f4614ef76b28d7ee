// Changes one placement into the next: moves a worker only if that pays, or if its node has gone.
#pragma once
#include "plugins/engines/common/balance/place.hpp"

namespace kinora::balance {

struct Moving {
  double gain = 0.02;       // relative; a smaller gain is ignored
  double confidence = 1.5;  // the change must still gain if the times are off by this many standard errors
  double start = 2;         // seconds until a worker that was moved works again
  double horizon = 30;      // seconds in which the gain must make up for the work that is lost by moving
};

struct Next {
  Plan plan;
  int64_t started = 0, stopped = 0;  // workers
};

namespace detail {

// A node with as many of these workers as fit; large shares of GPUs first, in the order of placement.
inline Group filled(const std::vector<Stage>& stages, const Node& node, const std::vector<int64_t>& workers,
                    std::vector<int64_t> nodes) {
  Group out{node, Space(node), std::vector<int64_t>(stages.size()), std::move(nodes)};
  std::vector<size_t> order(stages.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return stages[a].need.gpus > stages[b].need.gpus; });
  for (const size_t i : order) {
    out.workers[i] = std::min(workers[i], out.space.fit(stages[i].need));
    out.space.take(stages[i].need, out.workers[i]);
  }
  return out;
}

// Removes n workers of a stage, evenly from the nodes that have most.
inline void remove_workers(std::vector<Group>& groups, const std::vector<Stage>& stages, size_t stage,
                           int64_t n) {
  const auto rebuilt = [&](Group g) { return filled(stages, g.node, g.workers, std::move(g.nodes)); };
  while (n > 0) {
    auto most = std::max_element(groups.begin(), groups.end(), [&](const Group& a, const Group& b) {
      return a.workers[stage] < b.workers[stage];
    });
    if (most->workers[stage] == 0) return;
    const auto nodes = std::min<int64_t>(n, static_cast<int64_t>(most->nodes.size()));
    if (nodes < static_cast<int64_t>(most->nodes.size())) {
      Group rest = *most;
      rest.nodes.erase(rest.nodes.begin(), rest.nodes.begin() + nodes);
      most->nodes.resize(static_cast<size_t>(nodes));
      --most->workers[stage];
      *most = rebuilt(std::move(*most));
      groups.push_back(std::move(rest));
    } else {
      --most->workers[stage];
      *most = rebuilt(std::move(*most));
    }
    n -= nodes;
  }
}

// The current placement with as few changes as these numbers of workers need: a surplus worker stays unless
// another one needs its resources.
inline std::optional<std::vector<Group>> adapted(const std::vector<Stage>& stages, const Plan& present,
                                                 const std::vector<Order>& orders,
                                                 const std::vector<int64_t>& workers) {
  for (const auto& [removes, spread] :
       {std::pair{false, Spread::level}, {true, Spread::level}, {true, Spread::fill}}) {
    std::vector<Group> groups = present.groups;
    for (size_t i = 0; removes && i < stages.size(); ++i)
      if (present.workers[i] > workers[i]) remove_workers(groups, stages, i, present.workers[i] - workers[i]);
    const bool fits = std::all_of(orders[0].begin(), orders[0].end(), [&](size_t i) {
      return workers[i] <= present.workers[i] ||
             add_workers(groups, i, stages[i].need, workers[i] - present.workers[i], spread);
    });
    if (fits) return groups;
  }
  return std::nullopt;
}

// Workers to start and to stop, and the largest share of a stage that restarts.
inline double count_moves(const Plan& from, const Plan& to, Next& next) {
  const auto before = from.by_node(), after = to.by_node();
  std::vector<int64_t> started(to.workers.size());
  for (size_t node = 0; node < after.size(); ++node)
    for (size_t i = 0; i < started.size(); ++i) {
      const int64_t more = after[node][i] - (node < before.size() ? before[node][i] : 0);
      (more > 0 ? next.started : next.stopped) += std::abs(more);
      started[i] += std::max<int64_t>(0, more);
    }
  double share = 0;
  for (size_t i = 0; i < started.size(); ++i) {
    // New workers next to running ones cost nothing; only those that replace others do.
    const int64_t replacing = started[i] - std::max<int64_t>(0, to.workers[i] - from.workers[i]);
    if (replacing > 0)
      share = std::max(share, static_cast<double>(replacing) / static_cast<double>(to.workers[i]));
  }
  return share;
}

// The relative gain if the measured times are off to the disadvantage of the change: stages that get workers
// need them less, stages that lose workers need them more.
inline double doubtful_gain(const std::vector<Stage>& stages, std::vector<double> work, const Plan& from,
                            const Plan& to, double confidence) {
  for (size_t i = 0; i < stages.size(); ++i) {
    const double off = std::min(0.9, confidence * stages[i].error);
    if (to.workers[i] > from.workers[i]) work[i] *= 1 - off;
    if (to.workers[i] < from.workers[i]) work[i] *= 1 + off;
  }
  const double now = throughput(work, from.workers);
  return now > 0 ? throughput(work, to.workers) / now - 1 : 1;
}

}  // namespace detail

// Returns `present` itself, with its throughput under the current times, unless another placement pays. Nodes
// must be those of `present`.
inline Next rebalance(const std::vector<Stage>& stages, const std::vector<Node>& nodes, const Plan& present,
                      const Moving& moving) {
  const std::vector<double> work = work_of(stages);
  Next stay{present};
  stay.plan.throughput = throughput(work, present.workers);
  const double now = stay.plan.throughput;
  const double worth = now * (1 + moving.gain);
  if (detail::roof(stages, nodes, work) <= worth) return stay;
  const Plan best = place(stages, nodes);
  if (best.throughput <= worth) return stay;
  const auto orders = detail::orders(stages, nodes);
  Plan near = highest(
      stages, work, now, best.throughput, present.groups,
      [&](const std::vector<int64_t>& workers) { return detail::adapted(stages, present, orders, workers); });
  const auto if_it_pays = [&](const Plan& plan) -> std::optional<Next> {
    if (detail::doubtful_gain(stages, work, present, plan, moving.confidence) <= moving.gain)
      return std::nullopt;
    Next next{plan};
    const double lost = detail::count_moves(present, plan, next) * moving.start * now;
    if ((plan.throughput - now) * moving.horizon <= lost) return std::nullopt;
    return next;
  };
  // A placement from scratch moves nearly every worker, so it is tried only if the small change gains too
  // little.
  if (near.throughput * (1 + moving.gain) < best.throughput)
    if (auto next = if_it_pays(best)) return *next;
  return if_it_pays(near).value_or(stay);
}

// The number of a node in a former plan; nothing: it has come since.
using Former = std::vector<std::optional<size_t>>;

// `former` on other nodes: every worker whose node is still there stays, as far as it fits on what the node has now.
inline Plan carried(const std::vector<Stage>& stages, const std::vector<Node>& nodes, const Former& was,
                    const Plan& former) {
  const auto by_node = former.by_node();
  const std::vector<int64_t> none(stages.size());
  Plan out{{}, none, 0};
  for (size_t node = 0; node < nodes.size(); ++node) {
    Group g = detail::filled(stages, nodes[node], was[node] ? by_node[*was[node]] : none,
                             {static_cast<int64_t>(node)});
    for (size_t i = 0; i < stages.size(); ++i) out.workers[i] += g.workers[i];
    const auto same = std::find_if(out.groups.begin(), out.groups.end(), [&](const Group& o) {
      return o.node == g.node && o.workers == g.workers;
    });
    if (same == out.groups.end())
      out.groups.push_back(std::move(g));
    else
      same->nodes.push_back(static_cast<int64_t>(node));
  }
  out.throughput = throughput(work_of(stages), out.workers);
  return out;
}

// The same after nodes have come or gone. Workers on free resources stop no others, so any gain is worth them; beyond
// that a change must pay.
inline Next rebalance(const std::vector<Stage>& stages, const std::vector<Node>& nodes, const Former& was,
                      const Plan& former, const Moving& moving) {
  const std::vector<double> work = work_of(stages);
  const Plan kept = carried(stages, nodes, was, former);
  const auto orders = detail::orders(stages, nodes);
  const Plan refilled = highest(
      stages, work, kept.throughput, std::max(kept.throughput, detail::roof(stages, nodes, work)),
      kept.groups,
      [&](const std::vector<int64_t>& workers) { return detail::adapted(stages, kept, orders, workers); });
  Next out{rebalance(stages, nodes, refilled, moving).plan};
  detail::count_moves(kept, out.plan, out);
  return out;
}

}  // namespace kinora::balance
