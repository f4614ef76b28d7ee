// Which of a stage's workers should be on which node: the balancer's plan (balance/place.hpp), from the moment when
// every stage's time is known. It is made anew when nodes come or go, and every ten seconds if that pays. The scheduler
// prefers what is planned and leaves no core idle for it (Scheduler::free_slot), so a stage that needs no GPU stays off
// the cores that GPUs need.
#pragma once
#include <optional>
#include <vector>

#include "plugins/engines/common/balance/rebalance.hpp"

namespace kinora::engines {

class Placement {
 public:
  // All nodes that there have been; one that has gone has no cores.
  void set_nodes(const std::vector<balance::Node>& nodes);
  // At `now`, seconds since the run began. start: seconds until a worker that moves works again. Returns whether the
  // plan is another one.
  bool look(const std::vector<balance::Stage>& measured, double start, double now);
  // Workers of the stage on each node, in the order of set_nodes(); empty: there is no plan, or one node only.
  std::vector<int64_t> of(size_t stage) const;
  // Those that are left.
  const std::vector<balance::Node>& nodes() const { return nodes_; }

 private:
  balance::Plan plan_for(const std::vector<balance::Stage>& stages, double start) const;
  bool take(std::optional<balance::Plan> plan);
  balance::Former former() const;

  std::vector<balance::Node> nodes_;
  std::vector<size_t> numbers_;  // of nodes_
  size_t count_ = 0;             // nodes that there have been
  std::optional<balance::Plan> plan_;
  std::vector<size_t> planned_;  // numbers of the plan's nodes
  double next_ = 0;              // seconds: when it is made anew
};

}  // namespace kinora::engines
