#include "plugins/engines/common/advice.hpp"

#include <cmath>

namespace kinora::engines {

Advice::Advice(Stages& stages, const Tokens& total)
    : stages_(stages), seconds_(stages.size()), last_(stages.size()) {
  set_total(total);
  const double each = total.cores / std::max<double>(1, static_cast<double>(stages.size()));
  for (auto& stage : stages)
    stage->wanted = std::max<size_t>(1, static_cast<size_t>(each / std::max(1e-3, stage->need.cores)));
}

void Advice::set_total(const Tokens& total) {
  node_ = {total.cores, static_cast<double>(total.memory), static_cast<int64_t>(std::ceil(total.gpus - 1e-9)),
           total.nvdec, total.nvenc};
}

balance::Stage Advice::measured(size_t i, double now) {
  const StageState& stage = *stages_[i];
  const StageState::Figures& f = stage.figures;
  const StageState::Figures last = std::exchange(last_[i], f);
  if (const auto n = static_cast<double>(f.in - last.in); n > 0)
    seconds_[i].add((f.seconds - last.seconds) / n, n, now);
  balance::Stage out;
  out.from.assign(stage.spec->from, stage.spec->from + stage.spec->n_from);
  out.seconds = seconds_[i].value();
  // Samples in progress have emitted a part of their output, on average half.
  const double taken = static_cast<double>(f.in) + 0.5 * stage.busy;
  out.out = taken > 0 ? static_cast<double>(f.out) / taken : 1;
  out.need = {stage.need.cores, stage.need.gpus, static_cast<double>(stage.need.memory), stage.need.nvdec,
              stage.need.nvenc};
  out.workers = stage.in_order || stage.spec->workers > 0 ? static_cast<int64_t>(stage.slots.size()) : 0;
  return out;
}

void Advice::look(double now) {
  std::vector<balance::Stage> stages;
  bool known = true;
  for (size_t i = 0; i < stages_.size(); ++i) {
    stages.push_back(measured(i, now));
    known = known && seconds_[i].known();
  }
  if (!known) return;
  const balance::Shared reached = balance::shared(stages, node_);
  expected_ = reached.throughput;
  bound_ = reached.bound ? stages_[*reached.bound].get() : nullptr;
  if (!bound_) return;
  for (auto& stage : stages) stage.workers = 0;
  const auto workers = balance::workers_for(stages, balance::work_of(stages), expected_);
  for (size_t i = 0; i < stages_.size(); ++i)
    stages_[i]->wanted = std::min(static_cast<size_t>(workers[i]), stages_[i]->slots.size());
}

}  // namespace kinora::engines
