// The live figures as JSON, see abi/engine.h.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "execution.hpp"

namespace kinora::local {

// The stage with most queued work: in seconds, or in samples while a time is unknown; else the busiest.
const StageState& Execution::most_behind(const std::vector<double>& busy) const {
  const bool known = std::all_of(stages_.begin(), stages_.end(),
                                 [](const auto& s) { return s->queue.empty() || s->waiting().has_value(); });
  const auto behind = [&](const StageState& stage) {
    return std::pair(known ? stage.waiting().value_or(0) : static_cast<double>(stage.queue.size()),
                     busy[stage.index] / static_cast<double>(stage.slots.size()));
  };
  return **std::max_element(stages_.begin(), stages_.end(),
                            [&](const auto& a, const auto& b) { return behind(*a) < behind(*b); });
}

// The limit of the run: a stage all of whose workers are busy while cores are free; all
// cores, and then the stage that uses most of them; the memory; the source, if the stages have nothing
// to do; or the stage with most queued work.
std::string Execution::bound(const std::vector<double>& busy) const {
  constexpr double kFull = 0.9;
  const StageState* most = nullptr;
  double all = 0;
  for (const auto& stage : stages_) {
    const double share = busy[stage->index] * stage->need.cores;
    all += share;
    if (!most || share > busy[most->index] * most->need.cores) most = stage.get();
  }
  for (size_t i = stages_.size(); i-- > 0;) {
    const StageState& stage = *stages_[i];
    const auto workers = static_cast<double>(stage.slots.size());
    const bool cores_left = workers * stage.need.cores < kFull * settings_.total.cores;
    if (busy[i] >= kFull * workers && cores_left) return stage.spec->name;
  }
  if (most && all >= kFull * settings_.total.cores)
    return advice_->bound() && advice_->bound()->need.cores > 0 ? advice_->bound()->spec->name : most->spec->name;
  if (!waiting_.empty() || (!source_ended_ && !bytes_left(largest_input_))) return "memory";
  const bool all_wait_for_it = std::all_of(stages_.begin(), stages_.end(), [](const auto& s) { return s->queue.empty(); });
  if (stages_.empty() || (!source_ended_ && (pulling_ || all_wait_for_it))) return "source";
  return most_behind(busy).spec->name;
}

std::string Execution::figures(double seconds) {
  nlohmann::json out;
  const Lock lock(mutex_);
  const double interval = std::max(1e-3, seconds - std::exchange(last_report_, seconds));
  out["seconds"] = seconds;
  out["inputs"] = pulled_;
  out["cores"] = settings_.total.cores;
  out["memory"] = {{"used", ledger_.used()}, {"peak", ledger_.peak()}, {"beside", beside_.peak()}, {"bound", pipeline_.memory}};
  std::vector<double> busy(stages_.size());
  for (const auto& stage : stages_) {
    const auto& f = stage->figures;
    const StageState::Figures last = std::exchange(last_figures_[stage->index], f);
    // A worker's time counts when its task ends, so over one interval it may exceed the number of workers.
    busy[stage->index] = std::clamp((f.seconds - last.seconds) / interval, static_cast<double>(stage->busy) / 2,
                                    static_cast<double>(stage->slots.size()));
    out["stages"].push_back({{"name", stage->spec->name},
                             {"in", f.in},
                             {"out", f.out},
                             {"dropped", f.dropped},
                             {"failed", f.failed},
                             {"retried", f.retried},
                             {"died", f.died},
                             {"errors_after", f.errors_after},
                             {"isolated", stage->isolated},
                             {"rate", static_cast<double>(f.in - last.in) / interval},
                             {"busy", busy[stage->index]},
                             {"active", stage->busy},
                             {"workers", stage->instances.load()},
                             {"limit", stage->slots.size()},
                             {"wanted", std::min(stage->wanted, stage->slots.size())},
                             {"seconds", f.seconds},
                             {"queue", stage->queue.size()}});
    if (trace_) trace_->counter(stage->spec->name, stage->queue.size(), stage->busy, stage->index == 0 ? ledger_.used() : 0);
  }
  out["bound"] = bound(busy);
  advice_->look(seconds);
  if (advice_->expected() > 0) out["expected"] = advice_->expected();
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace kinora::local
