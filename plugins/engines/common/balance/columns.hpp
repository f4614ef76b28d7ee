// Places given numbers of workers onto nodes of a few kinds, by column generation (Gilmore and Gomory, "A
// linear programming approach to the cutting stock problem", 1961). A column is a set of workers on one node.
// The master program decides how many nodes get each column, and its prices determine the next column. The
// integer parts of the solution are kept, the master program is solved again for the rest, and so on; the
// last few nodes are filled greedily. The running time depends on the number of stages and kinds, not on the
// number of nodes.
#pragma once
#include <tuple>

#include "plugins/engines/common/balance/linear.hpp"
#include "plugins/engines/common/balance/pack.hpp"

namespace kinora::balance::detail {

using Pattern = std::vector<int64_t>;  // number of workers of each stage on one node

// Finds the most valuable pattern for one node at given values of a worker. The linear relaxation prices the
// node's resources. A pattern's loss against it is the sum of what each worker pays for resources beyond its
// value, and of the price of unused resources: both at least 0. So a search around the relaxed optimum can
// cut every branch that has lost as much as the best pattern so far. It stops after a number of steps: its
// result always fits, and is seldom not the best.
class BestPattern {
 public:
  BestPattern(const std::vector<Stage>& stages, const Node& node, const std::vector<double>& value)
      : stages_(stages), node_(node), value_(value), now_(stages.size()), best_(stages.size()) {
    for (size_t i = 0; i < stages.size(); ++i)
      if (value[i] > 0 && Space(node).fit(stages[i].need) > 0)
        (stages[i].need.whole_node ? alone_ : items_).push_back(i);
    const auto size = [&](size_t i) {
      return std::tuple(stages[i].need.gpus, stages[i].need.cores, stages[i].need.memory);
    };
    std::stable_sort(items_.begin(), items_.end(), [&](size_t a, size_t b) { return size(a) > size(b); });
  }
  // The pattern and its value.
  std::pair<Pattern, double> find() {
    if (!items_.empty()) search();
    for (const size_t i : alone_)
      if (value_[i] > best_value_) best_.assign(stages_.size(), 0), best_[i] = 1, best_value_ = value_[i];
    return {best_, best_value_};
  }

 private:
  static constexpr int kSteps = 2000;

  void search() {
    relax();
    leave_out_dominated();
    descend(0, Space(node_), 0);
  }
  // If several workers of one stage need no more than one of another and are worth as much, the search skips
  // the other; finish() may still add it.
  void leave_out_dominated() {
    const auto dominates = [&](size_t a, size_t b) {
      const double n = std::ceil(value_[b] / value_[a] * (1 - 1e-6));
      for (size_t r = 0; r < kResources; ++r)
        if (n * of(stages_[a].need, r) > of(stages_[b].need, r) * (1 + kSlack)) return false;
      return true;
    };
    for (size_t k = 0; k < items_.size(); ++k)
      if (std::none_of(tried_.begin(), tried_.end(),
                       [&](size_t t) { return dominates(items_[t], items_[k]); })) {
        std::erase_if(tried_, [&](size_t t) { return dominates(items_[k], items_[t]); });
        tried_.push_back(k);
      }
  }
  void relax() {
    LinearProgram lp;
    for (size_t r = 0; r < kResources; ++r) {
      const double all = of(node_, r);
      if (all <= 0) continue;
      auto& row = lp.a.emplace_back();
      for (const size_t i : items_) row.push_back(of(stages_[i].need, r) / all);
      lp.b.push_back(1);
    }
    for (const size_t i : items_) lp.c.push_back(value_[i]);
    const auto solution = lp.solve();
    relaxed_ = solution.x;
    if (solution.bounded) roof_ = std::inner_product(lp.c.begin(), lp.c.end(), relaxed_.begin(), 0.0);
    for (size_t k = 0; k < items_.size(); ++k) {
      double pays = 0;
      for (size_t row = 0; row < lp.a.size(); ++row) pays += solution.price[row] * lp.a[row][k];
      excess_.push_back(std::max(0.0, pays - value_[items_[k]]));
    }
  }
  // Decides the at-th stage of those that are tried, and those after it.
  void descend(size_t at, const Space& space, double lost) {
    if (++steps_ > kSteps || lost >= best_lost_) return;
    if (at == tried_.size()) return finish(space);
    const size_t k = tried_[at];
    const Need& need = stages_[items_[k]].need;
    const int64_t most = std::min<int64_t>(space.fit(need), 1 << 20);
    const auto wanted = std::clamp<int64_t>(std::llround(relaxed_[k]), 0, most);
    if (at + 1 == tried_.size()) return decide(at, most, space, lost);
    decide(at, wanted, space, lost);
    for (int64_t away = 1; away <= most && steps_ <= kSteps; ++away) {
      if (wanted + away <= most) decide(at, wanted + away, space, lost);
      if (wanted - away >= 0) decide(at, wanted - away, space, lost);
    }
  }
  void decide(size_t at, int64_t n, Space space, double lost) {
    const size_t k = tried_[at];
    space.take(stages_[items_[k]].need, n);
    now_[items_[k]] = n;
    descend(at + 1, space, lost + excess_[k] * static_cast<double>(n));
    now_[items_[k]] = 0;
  }
  // Fills the remaining resources with the workers that are worth most per resource.
  void finish(Space space) {
    Pattern full = now_;
    std::vector<size_t> order(items_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return excess_[a] * value_[items_[b]] < excess_[b] * value_[items_[a]];
    });
    for (const size_t k : order) {
      const Need& need = stages_[items_[k]].need;
      const int64_t n = std::min<int64_t>(space.fit(need), 1 << 20);
      space.take(need, n);
      full[items_[k]] += n;
    }
    double value = 0;
    for (const size_t i : items_) value += value_[i] * static_cast<double>(full[i]);
    if (value <= best_value_) return;
    best_value_ = value;
    best_lost_ = roof_ * (1 - 1e-6) - value;
    best_ = std::move(full);
  }

  const std::vector<Stage>& stages_;
  const Node& node_;
  const std::vector<double>& value_;
  std::vector<size_t> items_, alone_;                      // stages
  std::vector<size_t> tried_;                              // indices into items_
  std::vector<double> relaxed_;                            // workers of each item in the relaxed optimum
  std::vector<double> excess_;                             // price of a worker's resources minus its value
  double roof_ = std::numeric_limits<double>::infinity();  // value of the relaxed optimum
  Pattern now_, best_;
  double best_value_ = 0, best_lost_ = std::numeric_limits<double>::infinity();
  int steps_ = 0;
};

class Columns {
 public:
  // kinds: groups of empty nodes.
  Columns(const std::vector<Stage>& stages, std::vector<Group> kinds)
      : stages_(stages), kinds_(std::move(kinds)) {
    for (size_t k = 0; k < kinds_.size(); ++k)
      for (size_t i = 0; i < stages.size(); ++i)
        if (const int64_t n = kinds_[k].space.fit(stages[i].need); n > 0) {
          Pattern alone(stages.size());
          alone[i] = n;
          columns_.push_back({k, std::move(alone)});
        }
    for (size_t i = 0; i < stages.size(); ++i) large_first_.push_back(i);
    std::stable_sort(large_first_.begin(), large_first_.end(),
                     [&](size_t a, size_t b) { return stages[a].need.gpus > stages[b].need.gpus; });
  }
  // Returns nothing if it finds no placement.
  std::optional<std::vector<Group>> place(const std::vector<int64_t>& workers,
                                          const std::vector<Order>& orders) {
    std::vector<Group> left = kinds_, placed;
    std::vector<int64_t> rest = workers;
    for (bool first = true;; first = false) {
      if (std::all_of(rest.begin(), rest.end(), [](int64_t n) { return n == 0; })) break;
      const Master master = solve(left, rest, first ? kColumns : kFurtherColumns);
      bool whole = false;
      for (size_t c = 0; master.carries >= 1 - kRounding && c < columns_.size(); ++c)
        whole =
            keep(c, std::floor(master.nodes[c] / std::max(1.0, master.carries) + 1e-4), left, rest, placed) ||
            whole;
      if (whole) continue;
      if (first && master.carries < 1 - kRounding) return std::nullopt;
      if (auto all = filled(left, rest, placed, orders)) return all;
      if (master.carries < 1 - kRounding) return std::nullopt;
      const auto most = std::max_element(master.nodes.begin(), master.nodes.end()) - master.nodes.begin();
      if (!keep(static_cast<size_t>(most), 1, left, rest, placed)) return std::nullopt;
    }
    std::copy_if(left.begin(), left.end(), std::back_inserter(placed),
                 [](const Group& g) { return !g.nodes.empty(); });
    return placed;
  }
  // The value of a worker of each stage when these numbers of workers are requested. If all of them
  // together are worth more than all nodes can carry, no placement exists.
  std::vector<double> prices(const std::vector<int64_t>& workers) {
    auto price = solve(kinds_, workers, kColumns).price;
    price.resize(workers.size());
    return price;
  }

 private:
  static constexpr double kRounding = 1e-6;
  static constexpr int kColumns = 60, kFurtherColumns = 3;  // rounds of column generation, first and later
  struct Column {
    size_t kind;
    Pattern workers;
    bool operator==(const Column&) const = default;
  };
  struct Master {
    double carries = 0;         // share of the requested workers that fits, with fractions of nodes
    std::vector<double> nodes;  // for each column
    std::vector<double> price;  // of a worker of each stage, then of a node of each kind
  };

  // Variables: the share carried, then for each column the fraction of its kind's nodes.
  Master solve_once(const std::vector<Group>& left, const std::vector<int64_t>& rest) const {
    LinearProgram lp;
    lp.c.assign(1 + columns_.size(), 0);
    lp.c[0] = 1;
    std::vector<double> nodes;
    for (const Group& g : left) nodes.push_back(static_cast<double>(g.nodes.size()));
    for (size_t i = 0; i < rest.size(); ++i) {
      auto& row = lp.a.emplace_back(lp.c.size());
      lp.b.push_back(0);
      if (rest[i] == 0) continue;
      row[0] = 1;
      for (size_t c = 0; c < columns_.size(); ++c)
        row[c + 1] = -static_cast<double>(columns_[c].workers[i]) * nodes[columns_[c].kind] /
                     static_cast<double>(rest[i]);
    }
    for (size_t k = 0; k < left.size(); ++k) {
      auto& row = lp.a.emplace_back(lp.c.size());
      for (size_t c = 0; c < columns_.size(); ++c) row[c + 1] = columns_[c].kind == k;
      lp.b.push_back(1);
    }
    auto solution = lp.solve();
    Master out{solution.x[0], std::vector<double>(solution.x.begin() + 1, solution.x.end()),
               std::move(solution.price)};
    for (size_t c = 0; c < columns_.size(); ++c) out.nodes[c] *= nodes[columns_[c].kind];
    for (size_t i = 0; i < rest.size(); ++i)
      out.price[i] = rest[i] > 0 ? out.price[i] / static_cast<double>(rest[i]) : 0;
    return out;
  }
  // Adds columns until all requested workers fit, or no column helps.
  Master solve(const std::vector<Group>& left, const std::vector<int64_t>& rest, int rounds) {
    Master master = solve_once(left, rest);
    for (int round = 0; round < rounds && master.carries < 1; ++round) {
      const std::vector<double> value(master.price.begin(),
                                      master.price.begin() + static_cast<std::ptrdiff_t>(rest.size()));
      bool better = false;
      double all = 0;  // an upper bound of the value of any fractional pattern
      for (size_t k = 0; k < left.size(); ++k) {
        if (left[k].nodes.empty()) continue;
        auto [pattern, worth] = BestPattern(stages_, left[k].node, value).find();
        worth *= static_cast<double>(left[k].nodes.size());
        all += std::max(worth, master.price[rest.size() + k]);
        if (worth <= master.price[rest.size() + k] * (1 + kRounding) + 1e-12) continue;
        Column column{k, std::move(pattern)};
        if (std::find(columns_.begin(), columns_.end(), column) != columns_.end()) continue;
        columns_.push_back(std::move(column));
        better = true;
      }
      if (!better || all < 1 - kRounding) break;
      master = solve_once(left, rest);
    }
    return master;
  }
  // Assigns a column to n nodes, up to the number of workers still requested.
  bool keep(size_t c, double n, std::vector<Group>& left, std::vector<int64_t>& rest,
            std::vector<Group>& placed) const {
    const Column& column = columns_[c];
    Group& from = left[column.kind];
    const size_t count = std::min(static_cast<size_t>(std::max(0.0, n)), from.nodes.size());
    if (count == 0) return false;
    std::vector<Group> part{from};
    part[0].nodes.resize(count);
    from.nodes.erase(from.nodes.begin(), from.nodes.begin() + static_cast<std::ptrdiff_t>(count));
    for (const size_t i : large_first_) add_each(part, i, column.workers[i], rest[i]);
    std::move(part.begin(), part.end(), std::back_inserter(placed));
    return true;
  }
  // `each` workers per node while any are left.
  void add_each(std::vector<Group>& part, size_t stage, int64_t each, int64_t& rest) const {
    const size_t known = part.size();
    for (size_t at = 0; at < known && each > 0 && rest > 0; ++at) {
      const auto nodes = static_cast<int64_t>(part[at].nodes.size());
      const int64_t full = std::min(nodes, rest / each);
      const size_t others = part.size();
      give(part, at, static_cast<size_t>(full), stage, stages_[stage].need, each);
      rest -= full * each;
      if (full == nodes) continue;
      give(part, full > 0 ? others : at, 1, stage, stages_[stage].need, rest);
      rest = 0;
    }
  }
  std::optional<std::vector<Group>> filled(const std::vector<Group>& left, const std::vector<int64_t>& rest,
                                           std::vector<Group> placed,
                                           const std::vector<Order>& orders) const {
    std::copy_if(left.begin(), left.end(), std::back_inserter(placed),
                 [](const Group& g) { return !g.nodes.empty(); });
    return pack(stages_, placed, orders, rest);
  }

  const std::vector<Stage>& stages_;
  const std::vector<Group> kinds_;
  std::vector<Column> columns_;
  std::vector<size_t> large_first_;
};

}  // namespace kinora::balance::detail
