// Finds the most valuable set of workers of all stages for one node, at given values.
#pragma once
#include <tuple>

#include "kinora/balance/linear.hpp"
#include "kinora/balance/pack.hpp"

namespace kinora::balance::detail {

using Pattern = std::vector<int64_t>;  // number of workers of each stage on one node

// The linear relaxation prices the node's resources. A pattern's loss against it is the sum of what
// each worker pays for resources beyond its value, and of the price of unused resources: both at least
// 0. So a search around the relaxed optimum can cut every branch that has lost as much as the best pattern
// so far. It stops after a number of steps: its result always fits, and is seldom not the best.
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

}  // namespace kinora::balance::detail
