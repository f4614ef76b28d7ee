// The live figures of a run as JSON, see abi/engine.h. Guarded by the run's mutex (runner.hpp).
#pragma once
#include <string>
#include <vector>

#include "advice.hpp"
#include "scheduler.hpp"
#include "trace.hpp"

namespace kinora::local {

class Figures {
 public:
  Figures(const Scheduler& scheduler, const Ledger& ledger, double cores)
      : scheduler_(scheduler), ledger_(ledger), cores_(cores), figures_(scheduler.stages().size()) {}
  // At `seconds` since the run began. trace: may be null; receives the counters.
  std::string at(double seconds, Advice& advice, Trace* trace);

 private:
  std::string bound(const std::vector<double>& busy, const Advice& advice) const;
  const StageState& most_behind(const std::vector<double>& busy) const;

  const Scheduler& scheduler_;
  const Ledger& ledger_;
  const double cores_;
  std::vector<StageState::Figures> figures_;  // at the last call
  double last_ = 0;                           // seconds of the last call
};

}  // namespace kinora::local
