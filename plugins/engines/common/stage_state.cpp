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

// Assigns a node's devices in turn, so that its instances spread over them; also those that need a decoder or encoder
// of a device alone.
void put_on_devices(StageState& stage, size_t node, double total) {
  if ((stage.need.gpus <= 0 && stage.need.nvdec <= 0 && stage.need.nvenc <= 0) || total <= 0) return;
  stage.share = std::min(1.0, stage.need.gpus);
  const auto devices = static_cast<size_t>(std::ceil(total - 1e-9));
  const auto each = static_cast<size_t>(std::ceil(stage.need.gpus - 1e-9));
  std::vector<double> left(devices, 1.0);
  left.back() = total - static_cast<double>(devices - 1);
  size_t at = 0, number = 0;
  for (auto& slot : stage.slots) {
    if (slot->node != node) continue;
    slot->devices.clear();
    if (each > 1) {
      for (size_t d = 0; d < each; ++d) slot->devices.push_back((number * each + d) % devices);
      ++number;
      continue;
    }
    for (size_t tries = 0; tries < devices && left[at % devices] + 1e-9 < stage.share; ++tries) ++at;
    slot->devices = {at % devices};
    left[at++ % devices] -= stage.share;
  }
}

// The largest of each that one node has.
Tokens largest_of(const std::vector<Tokens>& nodes) {
  Tokens out;
  for (const Tokens& node : nodes)
    out = {std::max(out.cores, node.cores), std::max(out.gpus, node.gpus), std::max(out.memory, node.memory),
           std::max(out.nvdec, node.nvdec), std::max(out.nvenc, node.nvenc)};
  return out;
}

// How many instances may work at once on a node, as its cores or devices allow; 0 if one needs more than it has.
size_t limit_on(const StageState& stage, const Tokens& node) {
  const Tokens& need = stage.need;
  if (need.gpus > node.gpus + 1e-9 || need.cores > node.cores + 1e-9 || need.memory > node.memory ||
      need.nvdec > node.nvdec + 1e-9 || need.nvenc > node.nvenc + 1e-9)
    return 0;
  double limit = static_cast<double>(kMostWorkers);
  if (need.cores > 0) limit = std::min(limit, node.cores / need.cores);
  if (need.gpus > 0) limit = std::min(limit, instances_on_devices(need.gpus, node.gpus));
  if (need.cores <= 0 && need.gpus <= 0) limit = node.cores;
  if (need.nvdec > 0) limit = std::min(limit, node.nvdec / need.nvdec);
  if (need.nvenc > 0) limit = std::min(limit, node.nvenc / need.nvenc);
  return static_cast<size_t>(std::max(1.0, std::floor(limit + 1e-9)));
}

Slot& add_slot(StageState& stage, size_t node) {
  Slot& out = *stage.slots.emplace_back(std::make_unique<Slot>());
  out.number = stage.slots.size() - 1;
  out.node = node;
  return out;
}

// The requested number of instances, else what the nodes allow; on one node after the other, so that they spread.
void add_slots(StageState& stage, const std::vector<Tokens>& on) {
  const int64_t asked = stage.spec->workers;
  if (stage.in_order && asked > 1)
    throw Error(KINORA_ERROR_INVALID, stage_named(*stage.spec) +
                                          " needs its input in order and so has one worker, not " +
                                          std::to_string(asked) + "; remove 'workers'");
  const size_t nodes = on.size();
  std::vector<size_t> left;
  size_t all = 0;
  for (const Tokens& node : on) all += left.emplace_back(limit_on(stage, node));
  const size_t limit = stage.in_order ? 1
                       : asked > 0    ? std::min(static_cast<size_t>(asked), kMostWorkers * nodes)
                                      : std::max<size_t>(1, all);
  const auto fits = std::find_if(left.begin(), left.end(), [](size_t n) { return n > 0; });
  const size_t first = stage.here || fits == left.end() ? 0 : static_cast<size_t>(fits - left.begin());
  stage.slots.front()->node = first;
  if (left[first] > 0 && asked == 0) --left[first];
  for (size_t node = (first + 1) % nodes; stage.slots.size() < limit; node = (node + 1) % nodes) {
    if (left[node] == 0 && all > 0) continue;
    if (asked == 0) --left[node];
    add_slot(stage, node);
  }
  for (size_t node = 0; node < nodes; ++node) put_on_devices(stage, node, on[node].gpus);
}

void size_up(StageState& stage, const std::vector<Tokens>& nodes, Executor& executor) {
  FirstInstance first = executor.first(*stage.spec);
  const kinora_resources& r = first.needs;
  if (!(r.cores >= 0) || !(r.gpus >= 0))
    throw Error(
        KINORA_ERROR_INVALID,
        stage_named(*stage.spec) + " asks for a negative number of cores or GPUs; correct its resources()");
  const Tokens total = largest_of(nodes);
  stage.here = first.here;
  stage.in_order = r.ordered != 0;
  stage.may_start_anew = stage.counts_held = r.ordered != kKeepsState;
  stage.need = {std::min(r.cores, total.cores), std::min(r.gpus, total.gpus),
                std::min(r.memory, total.memory), std::min<double>(r.nvdec, total.nvdec),
                std::min<double>(r.nvenc, total.nvenc)};
  add_slots(stage, nodes);
  double cores = 0;
  for (const Tokens& node : nodes) cores += node.cores;
  // A user who requests more workers than cores expects them to run side by side (for example because they
  // wait for a network).
  if (stage.spec->workers > 0)
    stage.need.cores = std::min(stage.need.cores, cores / static_cast<double>(stage.slots.size()));
  stage.isolated = first.apart;
  stage.finishes = first.finishes;
  if (first.batches) stage.batch = std::max<size_t>(1, r.batch);
  stage.starting = first.starting;
  // Where the first node never has what the stage needs, the instance there has told so, and does nothing else.
  if (stage.slots.front()->node == 0)
    stage.slots.front()->instance = std::move(first.instance), stage.instances = 1;
  for (auto& slot : stage.slots) stage.free.put(*slot);
}

}  // namespace

void FreeSlots::put(Slot& slot) {
  slot.turn = slot.instance ? ++last_ : --first_;
  made_ += slot.instance != nullptr;
  all_.emplace(slot.turn, &slot);
  put_on_node(slot);
}

void FreeSlots::take(Slot& slot) {
  take_from_node(slot);
  all_.erase(slot.turn);
  made_ -= slot.turn > 0;
  slot.turn = 0;
}

void FreeSlots::move(Slot& slot, size_t node) {
  if (slot.turn != 0) take_from_node(slot);
  slot.node = node;
  if (slot.turn != 0) put_on_node(slot);
}

std::span<Slot* const> FreeSlots::on(size_t node) const {
  if (node >= on_.size()) return {};
  return on_[node];
}

void FreeSlots::put_on_node(Slot& slot) {
  if (slot.node >= on_.size()) on_.resize(slot.node + 1);
  auto& on = on_[slot.node];
  on.insert(std::find_if(on.begin(), on.end(), [&](const Slot* s) { return s->turn > slot.turn; }), &slot);
}

void FreeSlots::take_from_node(Slot& slot) { std::erase(on_[slot.node], &slot); }

std::vector<std::unique_ptr<StageState>> set_up_stages(const kinora_pipeline& pipeline,
                                                       const std::vector<Tokens>& nodes, Executor& executor) {
  std::vector<std::unique_ptr<StageState>> stages;
  try {
    for (uint32_t i = 0; i < pipeline.n_stages; ++i) {
      auto& stage = *stages.emplace_back(std::make_unique<StageState>());
      stage.spec = pipeline.stages[i];
      stage.index = i;
      stage.slots.push_back(std::make_unique<Slot>());
      size_up(stage, nodes, executor);
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

void extend(StageState& stage, size_t node, const Tokens& has, const Machine& machine) {
  if (stage.in_order || stage.spec->workers > 0) return;
  size_t n = limit_on(stage, has);
  for (const auto& [turn, slot] : stage.free.all())
    if (n > 0 && machine.has_lost(slot->node)) stage.free.move(*slot, node), --n;
  for (; n > 0; --n) stage.free.put(add_slot(stage, node));
  put_on_devices(stage, node, has.gpus);
}

void tear_down(std::vector<std::unique_ptr<StageState>>& stages) {
  for (auto& stage : stages) stage->queue.clear(), stage->remakes.clear();
  stages.clear();
}

}  // namespace kinora::engines
