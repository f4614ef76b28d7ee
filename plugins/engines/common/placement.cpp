#include "plugins/engines/common/placement.hpp"

#include "plugins/engines/common/balance/bound.hpp"

namespace kinora::engines {
namespace {

// Seconds between two plans, and in which a move must make up for the work that it costs.
constexpr double kReplan = 10, kHorizon = 300;
// Part of what workers need that a plan makes sure of, so that shares of a core need not fit to the last one.
constexpr double kSure = 0.95;
constexpr double kAlmost = 1e-5;  // of the bound
// Where whole workers do not fit the nodes at the bound, plans are for less and less of it.
constexpr double kLess = 0.9, kLeast = 0.3;

bool all_fit(const std::vector<balance::Stage>& stages, const std::vector<balance::Node>& nodes) {
  return std::all_of(stages.begin(), stages.end(), [&](const balance::Stage& stage) {
    return std::any_of(nodes.begin(), nodes.end(),
                       [&](const balance::Node& node) { return balance::Space(node).fit(stage.need) > 0; });
  });
}

// A worker leaves its resources to others while it has nothing to do, so it needs them for the part of its time in
// which it works at this throughput.
std::vector<balance::Stage> shared_needs(std::vector<balance::Stage> stages, double throughput) {
  const std::vector<double> work = balance::work_of(stages);
  const auto workers = balance::workers_for(stages, work, throughput);
  for (size_t i = 0; i < stages.size(); ++i) {
    const double part = kSure * std::min(1.0, throughput * work[i] / static_cast<double>(workers[i]));
    balance::Need& need = stages[i].need;
    for (double* of : {&need.cores, &need.gpus, &need.memory, &need.nvdec, &need.nvenc}) *of *= part;
  }
  return stages;
}

}  // namespace

void Placement::set_nodes(const std::vector<balance::Node>& nodes) {
  nodes_.clear(), numbers_.clear();
  count_ = nodes.size();
  for (size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].cores > 0) nodes_.push_back(nodes[i]), numbers_.push_back(i);
  next_ = 0;
}

balance::Former Placement::former() const {
  balance::Former out;
  for (const size_t number : numbers_) {
    const auto at = std::find(planned_.begin(), planned_.end(), number);
    out.push_back(at == planned_.end() ? std::nullopt : std::optional<size_t>(at - planned_.begin()));
  }
  return out;
}

bool Placement::look(const std::vector<balance::Stage>& measured, double start, double now) {
  if (now < next_) return false;
  next_ = now + kReplan;
  if (nodes_.size() < 2 || !all_fit(measured, nodes_)) return take(std::nullopt);
  const double best = (1 - kAlmost) * shared_bound(measured, nodes_);
  if (!(best > 0) || !std::isfinite(best)) return take(std::nullopt);
  for (double aim = best; aim > kLeast * best; aim *= kLess)
    if (auto plan = plan_for(shared_needs(measured, aim), start); plan.throughput > 0)
      return take(std::move(plan));
  return take(std::nullopt);
}

// throughput is 0 if some stage has no worker.
balance::Plan Placement::plan_for(const std::vector<balance::Stage>& stages, double start) const {
  const balance::Moving moving{.start = start, .horizon = kHorizon};
  if (!plan_) return balance::place(stages, nodes_);
  return (planned_ == numbers_ ? balance::rebalance(stages, nodes_, *plan_, moving)
                               : balance::rebalance(stages, nodes_, former(), *plan_, moving))
      .plan;
}

bool Placement::take(std::optional<balance::Plan> plan) {
  const bool is_other = plan.has_value() != plan_.has_value() ||
                        (plan && (planned_ != numbers_ || plan->by_node() != plan_->by_node()));
  plan_ = std::move(plan);
  planned_ = numbers_;
  return is_other;
}

std::vector<int64_t> Placement::of(size_t stage) const {
  std::vector<int64_t> out;
  if (!plan_) return out;
  out.resize(count_);
  const auto by_node = plan_->by_node();
  for (size_t i = 0; i < planned_.size(); ++i) out[planned_[i]] = by_node[i][stage];
  return out;
}

}  // namespace kinora::engines
