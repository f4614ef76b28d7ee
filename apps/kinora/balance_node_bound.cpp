// The bound of Gilmore and Gomory: under prices of workers, the largest value that each node can carry is found exactly.
#include <numeric>

#include "apps/kinora/balance_bound.hpp"

namespace kinora {
namespace {

using balance::kResources;
using balance::Node;
using balance::Stage;

// The largest total value of workers on one node, never an underestimate. Tries every pattern that could be better than
// the best so far. The excess of what a pattern's workers pay for resources, at the prices of the linear relaxation, over
// their value is lost against the relaxation. GPU shares that divide one another fit if their sum does.
class MostWorth {
 public:
  MostWorth(const std::vector<Stage>& stages, const Node& node, const std::vector<double>& value) {
    for (size_t r = 0; r < kResources; ++r) left_[r] = balance::of(node, r);
    for (size_t i = 0; i < stages.size(); ++i) {
      if (value[i] <= 0 || balance::Space(node).fit(stages[i].need) == 0) continue;
      if (stages[i].need.whole_node) alone_ = std::max(alone_, value[i]);
      else items_.push_back({&stages[i], value[i], 0});
    }
  }
  double find() {
    if (items_.empty()) return alone_;
    leave_out_dominated();
    relax();
    // Items that lose nothing first, and among those the large ones, so that the unused remainder shows early.
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

  // True if some number of items a need no more than one b and are worth as much, to 1e-8: then b is never needed.
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
      if (const double need = balance::of(s.need, r); need > 0) n = std::min(n, std::floor(left_[r] / need + 1e-9));
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

double whole_node_bound(const std::vector<Stage>& stages, const std::vector<Node>& nodes, double reached, double bound) {
  const auto work = balance::work_of(stages);
  const auto kinds = balance::group(nodes, stages.size());
  balance::detail::Columns columns(stages, kinds);
  const auto impossible = [&](double t) {
    const auto workers = balance::workers_for(stages, work, t);
    const auto value = columns.prices(workers);
    double asked = 0, carried = 0;
    for (size_t i = 0; i < stages.size(); ++i) asked += value[i] * static_cast<double>(workers[i]);
    for (const auto& kind : kinds) carried += static_cast<double>(kind.nodes.size()) * MostWorth(stages, kind.node, value).find();
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
