// Where tasks run: the nodes and their slots, and the room for what is made there.
#include <algorithm>
#include <tuple>
#include <utility>

#include "plugins/engines/common/scheduler.hpp"
#include "plugins/engines/common/stage_state.hpp"

namespace kinora::engines {

void NodeSet::set(size_t node, bool is_in) {
  if (node >= at_.size()) at_.resize(node + 1);
  if (at_[node].has_value() == is_in) return;
  if (is_in) {
    at_[node] = nodes_.size();
    nodes_.push_back(node);
    return;
  }
  const size_t at = *at_[node], last = nodes_.back();
  nodes_[at] = last, at_[last] = at;
  nodes_.pop_back();
  at_[node].reset();
}

void Scheduler::add_node(const Tokens& has) {
  const size_t node = machine_.nodes();
  machine_.add(has);
  for (auto& on_nodes : at_work_) on_nodes.push_back(0);
  ledger_.add_node(has.samples);
  look_at(node);
  for (auto& stage : stages_) {
    extend(*stage, node, has, machine_);
    if (stage->in_order || stage->spec->workers > 0)
      for (const auto& [turn, slot] : stage->free.all()) move(*stage, *slot, false);
  }
}

void Scheduler::lose_node(size_t node) {
  machine_.lose(node);
  look_at(node);
  for (auto& stage : stages_)
    for (const auto& [turn, slot] : stage->free.all()) move(*stage, *slot, false);
}

// It keeps room for a worker of each stage that has been able to work there.
void Scheduler::correct_node(size_t node, double cores) {
  double least = 0;
  for (const auto& stage : stages_)
    if (!stage->here && stage->need.cores <= machine_.of(node).cores)
      least = std::max(least, stage->need.cores);
  machine_.correct(node, cores, least);
}

void Scheduler::move(StageState& stage, Slot& slot, bool taken) {
  const auto to = has_lost_node(slot) ? machine_.freest(slot.devices) : std::nullopt;
  if (!to) return;
  if (taken) give(stage, &slot);
  stage.free.move(slot, *to);
  if (taken) take(stage, &slot);
}

// Whether one more task of the stage on the node is one of its planned workers, or beside these, or where it has none.
Scheduler::Agreement Scheduler::agreement(const StageState& stage, size_t node) const {
  if (stage.planned.empty()) return Agreement::planned;
  const int64_t planned = node < stage.planned.size() ? stage.planned[node] : 0;
  if (at_work_[stage.index][node] < planned) return Agreement::planned;
  return planned > 0 ? Agreement::beside : Agreement::elsewhere;
}

// Where a task of the stage can start. Nowhere: where it waits for cores; that it does is of no account on a node on
// which no stage could start, so the last slot's node stands for all of these.
std::span<const size_t> Scheduler::nodes_for(const StageState& stage) const {
  if (!open_[stage.index].nodes().empty() || stage.free.empty()) return open_[stage.index].nodes();
  return {&stage.free.last().node, 1};
}

// The node's free slot that the stage takes first: they differ in their devices, and whether they have an instance.
Slot* Scheduler::free_slot(const StageState& stage, size_t node, bool anywhere) const {
  const Agreement agrees = agreement(stage, node);
  if (machine_.has_lost(node) || (!anywhere && agrees == Agreement::elsewhere)) return nullptr;
  const auto slots = stage.free.on(node);
  for (size_t i = slots.size(); i-- > 0;) {
    if (!anywhere && agrees == Agreement::beside && !slots[i]->instance) return nullptr;
    if (machine_.has(node, slots[i]->devices, stage.share)) return slots[i];
  }
  return nullptr;
}

// Slots on a node with room come before the others, those that have or may get an instance before the rest, then those
// of the plan, those where most of the next sample's bytes are, those with an instance, those beside most free cores,
// and the last one. anywhere: also where the plan has no worker, for what would be idle otherwise. Null: none, or all
// of them wait for a node.
Slot* Scheduler::free_slot(const StageState& stage, bool anywhere) {
  if (stage.here) return stage.free.empty() ? nullptr : &stage.free.last();
  const Weight* next = stage.has_next() ? &stage.next().weight : nullptr;
  const bool makes = may_make(stage, false) && (stage.planned.empty() || !anywhere);
  Slot* best = nullptr;
  std::tuple<bool, bool, Agreement, uint64_t, bool, double, int64_t> most;
  std::optional<bool> room;  // at place 0
  for (const size_t node : nodes_for(stage)) {
    Slot* slot = free_slot(stage, node, anywhere);
    if (!slot) continue;
    const bool made = slot->instance != nullptr;
    const Agreement agrees = agreement(stage, node);
    const size_t place = ledger_.place_of(node);
    bool runs = machine_.has(node, stage.need) == Answer::yes;
    if (runs && place > 0) runs = has_room_for(stage, *slot);
    if (runs && place == 0) runs = room ? *room : *(room = has_room_for(stage, *slot));
    const uint64_t bytes = next && place > 0 ? bytes_at(*next, place) : 0;
    const double cores = agrees == Agreement::planned ? 0 : machine_.free_cores(node);
    const std::tuple has{runs, made || makes, agrees, bytes, made, cores, slot->turn};
    if (!best || has > most) best = slot, most = has;
  }
  return best;
}

// Where the samples are that the stage makes in this slot.
size_t Scheduler::place_of(const StageState& stage, const Slot& slot) const {
  return stage.here || stage.comes_home() ? 0 : ledger_.place_of(slot.node);
}

// What the stage's next call copies to the slot's node while it lasts.
Weight Scheduler::copies_of(const StageState& stage, const Slot& slot) const {
  Weight out;
  const size_t place = stage.here ? 0 : ledger_.place_of(slot.node);
  if (place == 0) return out;
  if (!stage.remakes.empty()) return add_copies(stage.remakes.front().weight, place, out), out;
  auto next = stage.queue.begin();
  for (size_t n = together(stage); n-- > 0; ++next) add_copies(next->second.weight, place, out);
  return out;
}

void Scheduler::end_copies(Slot& slot) { ledger_.samples().remove(std::exchange(slot.copies, {})); }

bool Scheduler::has_room_for(const StageState& stage, const Slot& slot) {
  const Weight copies = copies_of(stage, slot);
  return ledger_.has_room(place_of(stage, slot), stage.largest) &&
         (copies.shared.empty() || ledger_.has_room(copies, nullptr));
}

// Whether what the stage makes has room nowhere.
bool Scheduler::is_full(const StageState& stage) const {
  if (stage.here || stage.comes_home()) return !ledger_.has_room(0, stage.largest);
  for (size_t node = 0; node < machine_.nodes(); ++node)
    if (!machine_.has_lost(node) && ledger_.has_room(ledger_.place_of(node), stage.largest)) return false;
  return true;
}

// finish() of a stage counts on the first node.
void Scheduler::take(const StageState& stage, const Slot* slot) {
  if (stage.here) return;
  ++at_work_[stage.index][slot ? slot->node : 0];
  machine_.take(slot ? slot->node : 0, stage.need, slot ? slot->devices : std::vector<size_t>{}, stage.share);
  look_at(slot ? slot->node : 0);
}

void Scheduler::give(const StageState& stage, const Slot* slot) {
  if (stage.here) return;
  --at_work_[stage.index][slot ? slot->node : 0];
  machine_.give(slot ? slot->node : 0, stage.need, slot ? slot->devices : std::vector<size_t>{}, stage.share);
  look_at(slot ? slot->node : 0);
}

// After every change of what is free on the node.
void Scheduler::look_at(size_t node) {
  for (const auto& stage : stages_) {
    const Answer answer = machine_.has_lost(node) ? Answer::no : machine_.could(node, stage->need);
    open_[stage->index].set(
        node, answer == Answer::yes || (answer == Answer::wait && machine_.has_cores(node, least_cores_)));
  }
}

}  // namespace kinora::engines
