#include "plugins/engines/common/stage_state.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace kinora::engines {
namespace {

// Value of resources.ordered for a stage that keeps state in addition to held inputs (abi/stage.h).
constexpr uint32_t kKeepsState = 1;

std::string stage_named(const kinora_stage_spec& spec) { return "stage '" + std::string(spec.name) + "'"; }

// The stage's name without dots, which keys must not have; with its number if two stages have the same name.
void name_branches(std::vector<std::unique_ptr<StageState>>& stages) {
  std::map<std::string, int> met;
  for (auto& stage : stages) {
    stage->branch = stage->spec->name;
    for (char& c : stage->branch)
      if (c == '.' || c == '/' || c == '@') c = '-';
    if (++met[stage->branch] > 1) stage->branch += "-" + std::to_string(stage->index);
  }
}

void connect(std::vector<std::unique_ptr<StageState>>& stages) {
  for (auto& stage : stages) {
    for (uint32_t i = 0; i < stage->spec->n_from; ++i) {
      const uint32_t from = stage->spec->from[i];
      if (from >= stage->index)
        throw Error(KINORA_ERROR_INVALID,
                    stage_named(*stage->spec) + " takes the output of stage " + std::to_string(from) +
                        ", which does not come before it; list stages in the order of the data");
      stages[from]->to.push_back(stage.get());
    }
  }
  // From the last to the first: the stages downstream of a stage are those that it feeds, and the stages
  // downstream of these.
  for (size_t i = stages.size(); i-- > 0;) {
    auto& behind = stages[i]->ordered;
    for (StageState* next : stages[i]->to) {
      if (next->in_order) behind.push_back(next);
      behind.insert(behind.end(), next->ordered.begin(), next->ordered.end());
    }
    std::sort(behind.begin(), behind.end());
    behind.erase(std::unique(behind.begin(), behind.end()), behind.end());
  }
}

// A share of a GPU is on one device; more than one are whole devices, of which the last may be a part.
double instances_on_devices(double each, double total) {
  if (each > 1) return std::floor(total / std::ceil(each - 1e-9) + 1e-9);
  double out = 0;
  for (double left = total; left > 1e-9; left -= 1) out += std::floor(std::min(1.0, left) / each + 1e-9);
  return out;
}

// Assigns devices in turn, so that instances spread over them.
void put_on_devices(StageState& stage, double total) {
  if (stage.need.gpus <= 0) return;
  stage.share = std::min(1.0, stage.need.gpus);
  const auto devices = static_cast<size_t>(std::ceil(total - 1e-9));
  const auto each = static_cast<size_t>(std::ceil(stage.need.gpus - 1e-9));
  std::vector<double> left(devices, 1.0);
  left.back() = total - static_cast<double>(devices - 1);
  size_t at = 0;
  for (auto& slot : stage.slots) {
    if (each > 1) {
      for (size_t d = 0; d < each; ++d) slot->devices.push_back((slot->number * each + d) % devices);
      continue;
    }
    for (size_t tries = 0; tries < devices && left[at % devices] + 1e-9 < stage.share; ++tries) ++at;
    slot->devices = {at % devices};
    left[at++ % devices] -= stage.share;
  }
}

// How many instances may work at once: the requested number, else as many as the machine's cores or devices
// allow.
size_t worker_limit(const StageState& stage, const Capacity& capacity) {
  const int64_t asked = stage.spec->workers;
  if (stage.in_order && asked > 1)
    throw Error(KINORA_ERROR_INVALID, stage_named(*stage.spec) +
                                          " needs its input in order and so has one worker, not " +
                                          std::to_string(asked) + "; remove 'workers'");
  if (stage.in_order) return 1;
  if (asked > 0) return std::min(static_cast<size_t>(asked), capacity.most_workers);
  double limit = static_cast<double>(capacity.most_workers);
  if (stage.need.cores > 0) limit = std::min(limit, capacity.total.cores / stage.need.cores);
  if (stage.need.gpus > 0)
    limit = std::min(limit, instances_on_devices(stage.need.gpus, capacity.total.gpus));
  if (stage.need.cores <= 0 && stage.need.gpus <= 0) limit = capacity.total.cores;
  if (stage.need.nvdec > 0) limit = std::min(limit, capacity.total.nvdec / stage.need.nvdec);
  if (stage.need.nvenc > 0) limit = std::min(limit, capacity.total.nvenc / stage.need.nvenc);
  return static_cast<size_t>(std::max(1.0, std::floor(limit + 1e-9)));
}

void size_up(StageState& stage, const Capacity& capacity, Executor& executor) {
  FirstInstance first = executor.first(*stage.spec);
  const kinora_resources& r = first.needs;
  if (!(r.cores >= 0) || !(r.gpus >= 0))
    throw Error(
        KINORA_ERROR_INVALID,
        stage_named(*stage.spec) + " asks for a negative number of cores or GPUs; correct its resources()");
  const Tokens& total = capacity.total;
  stage.in_order = r.ordered != 0;
  stage.may_start_anew = stage.counts_held = r.ordered != kKeepsState;
  stage.need = {std::min(r.cores, total.cores), std::min(r.gpus, total.gpus),
                std::min(r.memory, total.memory), std::min<double>(r.nvdec, total.nvdec),
                std::min<double>(r.nvenc, total.nvenc)};
  const size_t limit = worker_limit(stage, capacity);
  // A user who requests more workers than cores expects them to run side by side (for example because they
  // wait for a network).
  if (stage.spec->workers > 0)
    stage.need.cores = std::min(stage.need.cores, capacity.total.cores / static_cast<double>(limit));
  while (stage.slots.size() < limit) {
    stage.slots.push_back(std::make_unique<Slot>());
    stage.slots.back()->number = stage.slots.size() - 1;
  }
  put_on_devices(stage, capacity.total.gpus);
  stage.isolated = first.apart;
  stage.finishes = first.finishes;
  if (first.batches) stage.batch = std::max<size_t>(1, r.batch);
  stage.starting = first.starting;
  stage.slots.front()->instance = std::move(first.instance);
  stage.instances = 1;
  for (size_t i = limit; i-- > 0;) stage.free.push_back(stage.slots[i].get());
}

}  // namespace

std::vector<std::unique_ptr<StageState>> set_up_stages(const kinora_pipeline& pipeline,
                                                       const Capacity& capacity, Executor& executor) {
  std::vector<std::unique_ptr<StageState>> stages;
  try {
    for (uint32_t i = 0; i < pipeline.n_stages; ++i) {
      auto& stage = *stages.emplace_back(std::make_unique<StageState>());
      stage.spec = pipeline.stages[i];
      stage.index = i;
      stage.slots.push_back(std::make_unique<Slot>());
      size_up(stage, capacity, executor);
    }
    connect(stages);
    name_branches(stages);
  } catch (...) {
    tear_down(stages);
    throw;
  }
  // Until a stage has finished, the emissions of its finish() are still expected by the ordered stages
  // downstream.
  for (auto& stage : stages)
    for (StageState* next : stage->ordered) next->ahead.add(below(stage->finish_place(), 0));
  return stages;
}

void tear_down(std::vector<std::unique_ptr<StageState>>& stages) {
  for (auto& stage : stages) stage->queue.clear();
  stages.clear();
}

}  // namespace kinora::engines
