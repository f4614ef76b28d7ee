#include "plugins/engines/common/balance/bound.hpp"

#include <numeric>
#include <set>

namespace kinora {
namespace {

using balance::kResources;
using balance::Need;
using balance::Node;
using balance::Stage;

constexpr double kRounding = 1e-9;

// Resources of a node and needs of a worker, in the same order.
constexpr size_t kPools = 6;
double has(const Node& n, size_t r) {
  const double all[kPools] = {n.cores, n.memory, static_cast<double>(n.gpus), n.nvdec, n.nvenc, 1};
  return all[r];
}
// Need of resource r on a node of this kind. A worker that needs a whole node takes everything the node has.
double wants(const Need& n, const Node& on, size_t r) {
  const double all[kPools] = {n.cores, n.memory, n.gpus, n.nvdec, n.nvenc, 0};
  return n.whole_node ? has(on, r) : all[r];
}
bool may_be(const Need& n, const Node& on) {
  return n.cores <= on.cores && n.memory <= on.memory && n.gpus <= static_cast<double>(on.gpus) &&
         n.nvdec <= on.nvdec && n.nvenc <= on.nvenc;
}

using Kinds = std::vector<std::pair<Node, double>>;  // kind and number of nodes
Kinds kinds_of(const std::vector<Node>& nodes) {
  Kinds out;
  for (const Node& n : nodes) {
    const auto same = std::find_if(out.begin(), out.end(), [&](const auto& k) { return k.first == n; });
    if (same == out.end())
      out.emplace_back(n, 1);
    else
      ++same->second;
  }
  return out;
}

// The largest u such that u times demand[i] workers of each stage fit, in any fractions, next to its fixed[i]
// workers. Variables, all of order 1: u / scale, then, for each stage that has a demand and each kind of node
// that can hold its workers, the part of scale times the demand that is placed there.
double most(const std::vector<Stage>& stages, const Kinds& kinds, const std::vector<double>& demand,
            const std::vector<double>& fixed, double scale) {
  std::vector<std::pair<size_t, size_t>> pairs;  // stage and kind
  for (size_t i = 0; i < stages.size(); ++i)
    for (size_t k = 0; k < kinds.size(); ++k)
      if (demand[i] > 0 && may_be(stages[i].need, kinds[k].first)) pairs.emplace_back(i, k);
  balance::LinearProgram lp;
  lp.c.assign(1 + pairs.size(), 0);
  lp.c[0] = 1;
  const auto add_row = [&](double first, double total, auto of_pair) {
    std::vector<double> row{first};
    for (const auto& [i, k] : pairs) row.push_back(of_pair(i, k));
    lp.a.push_back(std::move(row));
    lp.b.push_back(total);
  };
  for (size_t i = 0; i < stages.size(); ++i)  // the placed workers of a stage carry u
    if (demand[i] > 0) add_row(1, 0, [i](size_t stage, size_t) { return stage == i ? -1.0 : 0.0; });
  for (size_t r = 0; r < kPools; ++r) {
    double all = 0;
    const auto share = [&](size_t i, size_t k, double total) {
      return total > 0 ? scale * demand[i] * wants(stages[i].need, kinds[k].first, r) / total : 0;
    };
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
      const double total = kinds[kind].second * has(kinds[kind].first, r);
      if (total > 0) add_row(0, 1, [&](size_t i, size_t k) { return k == kind ? share(i, k, total) : 0; });
      all += total;
    }
    // Needs of fixed workers are subtracted from the sum over the kinds: a relaxation, so the result is still
    // a bound.
    for (size_t i = 0; i < stages.size(); ++i)
      if (!stages[i].need.whole_node) all -= fixed[i] * wants(stages[i].need, {}, r);
    if (all > 0) add_row(0, 1, [&](size_t i, size_t k) { return share(i, k, all); });
  }
  return scale * certified(lp);
}

// Tries every placement, stage by stage and node by node.
class Search {
 public:
  Search(const std::vector<Stage>& stages, const std::vector<Node>& nodes, int64_t steps)
      : stages_(stages), steps_(steps) {
    for (const Node& n : nodes) spaces_.emplace_back(n);
    order_.resize(stages.size());
    std::iota(order_.begin(), order_.end(), 0);
    // If shares divide one another and fit on the devices at all, they fit in falling order.
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) { return key(a) > key(b); });
  }
  // Nothing if the search ran out of steps.
  std::optional<bool> fits(const std::vector<int64_t>& workers) {
    workers_ = &workers;
    left_ = steps_;
    const bool found = place(0, 0, workers[order_[0]]);
    if (left_ <= 0 && !found) return std::nullopt;
    return found;
  }

 private:
  std::tuple<bool, double, double> key(size_t i) const {
    const Need& n = stages_[i].need;
    return {n.whole_node, n.gpus, n.cores};
  }
  bool place(size_t at, size_t node, int64_t n) {
    if (--left_ <= 0) return false;
    if (n == 0) return at + 1 == order_.size() || place(at + 1, 0, (*workers_)[order_[at + 1]]);
    if (node == spaces_.size()) return false;
    const Need& need = stages_[order_[at]].need;
    for (int64_t here = std::min(n, spaces_[node].fit(need)); here >= 0; --here) {
      const balance::Space before = spaces_[node];
      spaces_[node].take(need, here);
      if (place(at, node + 1, n - here)) return spaces_[node] = before, true;
      spaces_[node] = before;
    }
    return false;
  }
  const std::vector<Stage>& stages_;
  int64_t steps_, left_ = 0;
  std::vector<balance::Space> spaces_;
  std::vector<size_t> order_;
  const std::vector<int64_t>* workers_ = nullptr;
};

// Every throughput from 0 to `roof` that some whole number of workers of some stage gives.
std::vector<double> steps_to(double roof, const std::vector<Stage>& stages, const std::vector<double>& work) {
  std::set<double> out;
  for (size_t i = 0; i < stages.size(); ++i)
    for (double n = 1; work[i] > 0 && n / work[i] <= roof * (1 + kRounding); ++n) out.insert(n / work[i]);
  return {out.begin(), out.end()};
}

// The highest of these throughputs that is possible. Every throughput below a possible one is possible too.
template <class Possible>
double highest_of(const std::vector<double>& steps, Possible&& possible) {
  size_t low = 0, high = steps.size();  // all below low are possible, none from high on
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (possible(steps[middle]))
      low = middle + 1;
    else
      high = middle;
  }
  return low == 0 ? 0 : steps[low - 1];
}

// The largest total value of workers on one node, never an underestimate. Tries every pattern that could be
// better than the best so far. The excess of what a pattern's workers pay for resources, at the prices of the
// linear relaxation, over their value is lost against the relaxation. GPU shares that divide one another fit
// if their sum does.
class MostWorth {
 public:
  MostWorth(const std::vector<Stage>& stages, const Node& node, const std::vector<double>& value) {
    for (size_t r = 0; r < kResources; ++r) left_[r] = balance::of(node, r);
    for (size_t i = 0; i < stages.size(); ++i) {
      if (value[i] <= 0 || balance::Space(node).fit(stages[i].need) == 0) continue;
      if (stages[i].need.whole_node)
        alone_ = std::max(alone_, value[i]);
      else
        items_.push_back({&stages[i], value[i], 0});
    }
  }
  double find() {
    if (items_.empty()) return alone_;
    leave_out_dominated();
    relax();
    // Items that lose nothing first, and among those the large ones, so that the unused remainder shows
    // early.
    std::stable_sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
      return std::pair(a.excess > 1e-9 * a.value, -a.value) < std::pair(b.excess > 1e-9 * b.value, -b.value);
    });
    descend(0, 0, 0);
    return std::max(alone_, steps_ > kSteps ? roof_ : best_);
  }

 private:
  static constexpr int64_t kSteps = 3'000'000;
  struct Item {
    const Stage* stage;
    double value, excess;
  };

  // True if some number of items a need no more than one b and are worth as much, to 1e-8: then b is never
  // needed.
  static bool dominates(const Item& a, const Item& b) {
    const double n = std::ceil(b.value / a.value * (1 - 1e-8));
    for (size_t r = 0; r < kResources; ++r)
      if (n * balance::of(a.stage->need, r) > balance::of(b.stage->need, r) * (1 + 1e-9)) return false;
    return true;
  }
  void leave_out_dominated() {
    std::vector<Item> kept;
    for (const Item& item : items_) {
      if (std::any_of(kept.begin(), kept.end(), [&](const Item& k) { return dominates(k, item); })) continue;
      std::erase_if(kept, [&](const Item& k) { return dominates(item, k); });
      kept.push_back(item);
    }
    items_ = std::move(kept);
  }
  void relax() {
    balance::LinearProgram lp;
    std::vector<size_t> of_row;
    for (size_t r = 0; r < kResources; ++r) {
      if (left_[r] <= 0) continue;
      auto& row = lp.a.emplace_back();
      for (const Item& item : items_) row.push_back(balance::of(item.stage->need, r) / left_[r]);
      lp.b.push_back(1);
    }
    for (const Item& item : items_) lp.c.push_back(item.value);
    roof_ = certified(lp);
    const auto price = lp.solve().price;
    for (size_t j = 0; j < items_.size(); ++j) {
      double pays = 0;
      for (size_t row = 0; row < price.size(); ++row) pays += price[row] * lp.a[row][j];
      items_[j].excess = std::max(0.0, pays - items_[j].value);
    }
  }
  int64_t fit(const Stage& s) const {
    double n = 1e6;
    for (size_t r = 0; r < kResources; ++r)
      if (const double need = balance::of(s.need, r); need > 0)
        n = std::min(n, std::floor(left_[r] / need + 1e-9));
    return static_cast<int64_t>(n);
  }
  void take(const Stage& s, double n) {
    for (size_t r = 0; r < kResources; ++r) left_[r] -= n * balance::of(s.need, r);
  }
  void descend(size_t k, double worth, double lost) {
    best_ = std::max(best_, worth);
    if (++steps_ > kSteps || k == items_.size()) return;
    const Item& item = items_[k];
    const int64_t most = fit(*item.stage), least = k + 1 == items_.size() ? most : 0;
    for (int64_t n = most; n >= least && steps_ <= kSteps; --n) {
      const auto count = static_cast<double>(n);
      if (lost + count * item.excess > (roof_ - best_) * (1 + 1e-9)) continue;
      take(*item.stage, count);
      descend(k + 1, worth + count * item.value, lost + count * item.excess);
      take(*item.stage, -count);
    }
  }

  double left_[kResources];
  std::vector<Item> items_;
  double alone_ = 0, roof_ = 0, best_ = 0;
  int64_t steps_ = 0;
};

}  // namespace

double certified(const balance::LinearProgram& lp) {
  const auto solution = lp.solve();
  if (!solution.bounded) return std::numeric_limits<double>::infinity();
  // Rounding may leave the dual solution y slightly short of A'y >= c. For a column with c > 0, y is scaled
  // up; for any other column the shortfall is charged at the variable's upper bound.
  const std::vector<double>& price = solution.price;
  std::vector<double> sums(lp.c.size());
  double bound = std::inner_product(price.begin(), price.end(), lp.b.begin(), 0.0), covered = 1, missing = 0;
  for (size_t j = 0; j < sums.size(); ++j) {
    for (size_t i = 0; i < lp.a.size(); ++i) sums[j] += price[i] * lp.a[i][j];
    if (lp.c[j] > 0) covered = std::min(covered, sums[j] / lp.c[j]);
  }
  if (covered <= 0) return std::numeric_limits<double>::infinity();
  for (size_t j = 0; j < sums.size(); ++j) {
    if (lp.c[j] > 0 || sums[j] >= 0) continue;
    double most = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < lp.a.size(); ++i)
      if (std::all_of(lp.a[i].begin(), lp.a[i].end(), [](double v) { return v >= 0; }) && lp.a[i][j] > 0)
        most = std::min(most, lp.b[i] / lp.a[i][j]);
    missing -= sums[j] * most;
  }
  return (bound + missing) / covered;
}

double linear_bound(const std::vector<Stage>& stages, const std::vector<Node>& nodes) {
  const auto work = balance::work_of(stages);
  std::vector<double> demand(stages.size()), fixed(stages.size());
  for (size_t i = 0; i < stages.size(); ++i)
    (stages[i].workers > 0 ? fixed[i] : demand[i]) =
        stages[i].workers > 0 ? static_cast<double>(stages[i].workers) : work[i];
  return std::min(balance::limit_of_fixed(stages, work),
                  most(stages, kinds_of(nodes), demand, fixed, balance::detail::roof(stages, nodes, work)));
}

double shared_bound(std::vector<Stage> stages, const std::vector<Node>& nodes) {
  const auto work = balance::work_of(stages);
  const double most = balance::limit_of_fixed(stages, work);
  bool is_limited = false;
  for (size_t i = 0; i < stages.size(); ++i) {
    stages[i].workers = 0;  // idle ones leave their resources to other stages
    for (size_t r = 0; r < kResources; ++r)
      is_limited = is_limited || work[i] * balance::of(stages[i].need, r) > 0;
  }
  return is_limited ? std::min(most, linear_bound(stages, nodes)) : most;
}

double whole_worker_bound(const std::vector<Stage>& stages, const std::vector<Node>& nodes) {
  const auto work = balance::work_of(stages);
  const Kinds kinds = kinds_of(nodes);
  const double roof = linear_bound(stages, nodes);
  const auto possible = [&](double t) {
    const auto workers = balance::workers_for(stages, work, t);
    return most(stages, kinds, {workers.begin(), workers.end()}, std::vector<double>(stages.size()), 1) >=
           1 - 1e-7;
  };
  double workers = 0;
  for (const double w : work) workers += roof * w;
  if (workers > 100000) return roof;  // so many that rounding to whole workers makes no difference
  return possible(0) ? highest_of(steps_to(roof, stages, work), possible) : 0;
}

std::optional<double> exact_optimum(const std::vector<Stage>& stages, const std::vector<Node>& nodes,
                                    int64_t steps) {
  const auto work = balance::work_of(stages);
  Search search(stages, nodes, steps);
  bool broken_off = false;
  const auto possible = [&](double t) {
    const auto found = search.fits(balance::workers_for(stages, work, t));
    broken_off = broken_off || !found;
    return found.value_or(false);
  };
  const double best =
      possible(0) ? highest_of(steps_to(linear_bound(stages, nodes), stages, work), possible) : 0;
  return broken_off ? std::nullopt : std::optional(best);
}

// The bound of Gilmore and Gomory: under prices of workers, the largest value that each node can carry is
// found exactly.

double whole_node_bound(const std::vector<Stage>& stages, const std::vector<Node>& nodes, double reached,
                        double bound) {
  const auto work = balance::work_of(stages);
  const auto kinds = balance::group(nodes, stages.size());
  balance::detail::Columns columns(stages, kinds);
  const auto impossible = [&](double t) {
    const auto workers = balance::workers_for(stages, work, t);
    const auto value = columns.prices(workers);
    double asked = 0, carried = 0;
    for (size_t i = 0; i < stages.size(); ++i) asked += value[i] * static_cast<double>(workers[i]);
    for (const auto& kind : kinds)
      carried += static_cast<double>(kind.nodes.size()) * MostWorth(stages, kind.node, value).find();
    return asked > carried * (1 + 1e-6);
  };
  double low = reached;
  while (bound > low * (1 + 1e-5)) {
    const double middle = (low + bound) / 2;
    (impossible(middle) ? bound : low) = middle;
  }
  return bound;
}

}  // namespace kinora
