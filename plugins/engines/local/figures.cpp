// The live figures as JSON, see abi/engine.h.
#include <nlohmann/json.hpp>

#include "execution.hpp"

namespace kinora::local {

std::string Execution::figures(double seconds) {
  nlohmann::json out;
  const Lock lock(mutex_);
  const double interval = std::max(1e-3, seconds - std::exchange(last_report_, seconds));
  out["seconds"] = seconds;
  out["inputs"] = pulled_;
  out["memory"] = {{"used", ledger_.used()}, {"peak", ledger_.peak()}, {"bound", pipeline_.memory}};
  for (const auto& stage : stages_) {
    const auto& f = stage->figures;
    // A worker's time counts when its task ends, so over one interval `busy` may exceed the workers that
    // there are.
    const double work = f.seconds - std::exchange(last_seconds_[stage->index], f.seconds);
    out["stages"].push_back({{"name", stage->spec->name},
                             {"in", f.in},
                             {"out", f.out},
                             {"dropped", f.dropped},
                             {"failed", f.failed},
                             {"retried", f.retried},
                             {"busy", work / interval},
                             {"workers", stage->busy},
                             {"seconds", f.seconds},
                             {"queue", stage->queue.size()}});
  }
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace kinora::local
