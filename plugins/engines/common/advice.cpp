#include "plugins/engines/common/advice.hpp"

#include <cmath>

#include "plugins/engines/common/balance/bound.hpp"

namespace kinora::engines {

Advice::Advice(Stages& stages, const std::vector<Tokens>& nodes)
    : stages_(stages), seconds_(stages.size()), last_(stages.size()) {
  set_nodes(nodes);
  const double each = all_.cores / std::max<double>(1, static_cast<double>(stages.size()));
  for (auto& stage : stages)
    stage->wanted = std::max<size_t>(1, static_cast<size_t>(each / std::max(1e-3, stage->need.cores)));
}

void Advice::set_nodes(const std::vector<Tokens>& nodes) {
  std::vector<balance::Node> all;
  if (std::all_of(nodes.begin(), nodes.end(), [](const Tokens& has) { return has.cores <= 0; }))
    return;  // all have gone: until one comes, what was right stays
  all_ = {};
  for (const Tokens& has : nodes) {
    all.push_back({has.cores, static_cast<double>(has.memory),
                   static_cast<int64_t>(std::ceil(has.gpus - 1e-9)), has.nvdec, has.nvenc});
    all_.cores += all.back().cores, all_.memory += all.back().memory, all_.gpus += all.back().gpus;
    all_.nvdec += all.back().nvdec, all_.nvenc += all.back().nvenc;
  }
  placement_.set_nodes(all);
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
  out.error = seconds_[i].error();
  // Samples in progress have emitted a part of their output, on average half.
  const double taken = static_cast<double>(f.in) + 0.5 * stage.busy;
  out.out = taken > 0 ? static_cast<double>(f.out) / taken : 1;
  out.need = {stage.need.cores, stage.need.gpus, static_cast<double>(stage.need.memory), stage.need.nvdec,
              stage.need.nvenc};
  if (stage.here) out.need = {0};
  out.workers = stage.in_order || stage.spec->workers > 0 ? static_cast<int64_t>(stage.slots.size()) : 0;
  return out;
}

bool Advice::look(double now) {
  measured_.clear();
  bool known = true;
  double start = 0;
  for (size_t i = 0; i < stages_.size(); ++i) {
    measured_.push_back(measured(i, now));
    known = known && seconds_[i].known();
    start = std::max(start, stages_[i]->starting);
  }
  if (!known) return false;
  const balance::Shared reached = balance::shared(measured_, all_);
  expected_ = reached.throughput;
  bound_ = reached.bound ? stages_[*reached.bound].get() : nullptr;
  if (!bound_) return false;
  const bool moved = placement_.look(measured_, start, now);
  std::vector<balance::Stage> any = measured_;
  for (auto& stage : any) stage.workers = 0;
  const auto workers = balance::workers_for(any, balance::work_of(any), expected_);
  for (size_t i = 0; i < stages_.size(); ++i) {
    StageState& stage = *stages_[i];
    stage.wanted = std::min(static_cast<size_t>(workers[i]), stage.slots.size());
    if (moved && measured_[i].workers == 0) stage.planned = placement_.of(i);
  }
  return moved;
}

double Advice::expected() const {
  if (placement_.nodes().size() < 2 || expected_ <= 0) return expected_;
  return std::min(expected_, shared_bound(measured_, placement_.nodes()));
}

}  // namespace kinora::engines
