// The balancer's conclusions from a run's figures: how many instances each stage needs, and on which nodes, which stage
// limits the run, and the best throughput.
#pragma once
#include <memory>
#include <vector>

#include "plugins/engines/common/balance/estimate.hpp"
#include "plugins/engines/common/placement.hpp"
#include "plugins/engines/common/stage_state.hpp"

namespace kinora::engines {

class Advice {
 public:
  using Stages = std::vector<std::unique_ptr<StageState>>;
  // Until times are known, stages share the cores equally.
  Advice(Stages& stages, const std::vector<Tokens>& nodes);
  // From now on these are the nodes: all that there have been, those that were lost with nothing.
  void set_nodes(const std::vector<Tokens>& nodes);
  // At `now`, seconds since the run began: ages the measurements, adds new ones and sets each stage's
  // `wanted` and `planned`. Returns whether the latter has changed.
  bool look(double now);
  // Inputs of the source per second that no schedule exceeds at these times; 0 while a stage's time is unknown.
  double expected() const;
  // Null while a stage's time is unknown.
  const StageState* bound() const { return bound_; }

 private:
  balance::Stage measured(size_t stage, double now);

  Stages& stages_;
  balance::Node all_;
  Placement placement_;
  std::vector<balance::Stage> measured_;  // at the last look
  std::vector<balance::Estimate> seconds_;
  std::vector<StageState::Figures> last_;
  double expected_ = 0;  // if all nodes were one
  const StageState* bound_ = nullptr;
};

}  // namespace kinora::engines
