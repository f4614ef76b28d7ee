// The balancer's conclusions from a run's figures: how many instances each stage needs, which stage limits
// the run, and the machine's best throughput.
#pragma once
#include <memory>
#include <vector>

#include "plugins/engines/common/balance/estimate.hpp"
#include "plugins/engines/common/balance/stages.hpp"
#include "plugins/engines/common/stage_state.hpp"

namespace kinora::engines {

class Advice {
 public:
  using Stages = std::vector<std::unique_ptr<StageState>>;
  // Until times are known, stages share the cores equally.
  Advice(Stages& stages, const Tokens& total);
  // The machines have other totals from now on.
  void set_total(const Tokens& total);
  // At `now`, seconds since the run began: ages the measurements, adds new ones and sets each stage's
  // `wanted`.
  void look(double now);
  // Inputs of the source per second; 0 while a stage's time is unknown.
  double expected() const { return expected_; }
  // Null while expected() is 0.
  const StageState* bound() const { return bound_; }

 private:
  balance::Stage measured(size_t stage, double now);

  Stages& stages_;
  balance::Node node_;
  std::vector<balance::Estimate> seconds_;
  std::vector<StageState::Figures> last_;
  double expected_ = 0;
  const StageState* bound_ = nullptr;
};

}  // namespace kinora::engines
