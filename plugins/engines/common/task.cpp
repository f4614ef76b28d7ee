#include "plugins/engines/common/task.hpp"

#include <algorithm>

#include "plugins/engines/common/stage_state.hpp"

namespace kinora::engines {

bool Task::emit(Sample sample) {
  if (remakes()) return emit_again(std::move(sample)), true;
  const std::string name(sample.key());
  if (told_before(name)) return named.clear(), true;
  Tracks of = parents_of(sample);
  if (refuse_key(sample, of)) return true;
  Weight weight = weigh(sample);
  std::vector<Sample> copies;
  for (size_t i = 1; i < stage.to.size(); ++i) copies.push_back(sample.clone(stage.to[i]->branch_key(name)));
  const std::lock_guard lock(runner.mutex());
  if (runner.stopping()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
  runner.ledger().release(std::exchange(reserve, {}));
  Weight* out = leaving(sample);
  const Weight* gone = replaced(sample, out);
  emission_ = Emission{std::move(sample), std::move(weight), std::move(copies), std::move(of)};
  waiting_ = {&stage, slot, &emission_->weight, out, below(place, emitted), gone, [this](bool granted) {
                has_room(granted);
              }};
  const bool at_once = runner.scheduler().enter(waiting_);
  if (at_once)
    pass_on();
  else
    waits_since_ = runner.now();
  runner.dispatch();
  return at_once;
}

// It takes room that its sample had before it was lost: it waits for none.
void Task::emit_again(Sample sample) {
  const std::lock_guard lock(runner.mutex());
  if (runner.stopping()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
  runner.ledger().release(std::exchange(reserve, {}));
  runner.emitted_again(*this, std::move(sample));
  runner.dispatch();
}

void Task::has_room(bool granted) {
  waited += seconds_between(waits_since_, runner.now());
  if (granted) pass_on();
  if (room) room(granted);
}

void Task::pass_on() {
  Origin from = origin(emission_->sample, emission_->of);
  ++stage.figures.out;
  from.after = stage.index + 1;
  from.keeps = runner.remakes() && is_made_once(*from.track);
  const bool lost = runner.is_lost(emission_->sample);
  runner.scheduler().hand_on(stage.to, std::move(from), std::move(emission_->sample),
                             std::move(emission_->weight), std::move(emission_->copies));
  emission_.reset();
  if (lost) runner.find_lost();
}

// What a stage gives only while it sees its input in order, or several inputs together, is not made again of them.
bool Task::is_made_once(const Track& track) const {
  return stage.in_order || (track.since == stage.index + 1 && track.parents.size() != 1);
}

void Task::drop(Sample sample, const char* rule, double score) {
  if (remakes()) return;
  if (told_before(sample.key())) return named.clear();
  const Tracks of = parents_of(sample);
  if (refuse_key(sample, of)) return;
  end_here(std::move(sample), of,
           End::filtered(stage.spec->name, rule && *rule ? rule : stage.spec->name, score));
}

void Task::fail(Sample sample, const char* reason) {
  if (remakes()) return;
  if (told_before(sample.key())) return named.clear();
  const Tracks of = parents_of(sample);
  if (refuse_key(sample, of)) return;
  end_here(std::move(sample), of, End::failed(stage.spec->name, KINORA_ERROR_DATA, reason ? reason : ""));
}

void Task::hold() {
  const std::lock_guard lock(runner.mutex());
  if (stage.batch > 1)
    throw Error(KINORA_ERROR_INVALID,
                "hold() is not for a stage with batches (resources.batch); use one or the other");
  if (!in || ended)
    throw Error(KINORA_ERROR_INVALID,
                "hold() is for the input of process(), before it was emitted or dropped");
  stage.holds = true;
  if (!remakes()) holds = touched = true;
}

void Task::stored(std::string_view name) {
  if (remakes()) return;
  const std::lock_guard lock(runner.mutex());
  if (in && holds && !ended && name == key) {
    holds = false;
    return;
  }
  const auto at = held->find(name);
  if (at == held->end())
    throw Error(KINORA_ERROR_NOT_FOUND,
                "stored() of '" + std::string(name) + "', which this stage does not hold");
  Held one = take_held(at);
  runner.lineage().end(one.track, End::consumed_by(stage.spec->name), std::move(one.sample),
                       std::move(one.weight));
}

void Task::made_of(std::span<const kinora_str> names) {
  if (remakes()) return;
  const std::lock_guard lock(runner.mutex());
  named.clear();
  for (const auto& name : names) {
    const auto at = held->find(view(name));
    if (at != held->end()) {
      named.push_back(at->second.track);
    } else if (in && view(name) == key) {
      named.push_back(in->track);
    } else if (const auto of = std::find_if(batch.begin(), batch.end(),
                                            [&](const auto& track) { return track->key == view(name); });
               of != batch.end()) {
      named.push_back(*of);
    } else {
      named.clear();
      throw Error(
          KINORA_ERROR_NOT_FOUND,
          "made_of(): '" + std::string(view(name)) +
              "' is neither an input of this call nor held; name the parents of a sample before they end");
    }
  }
}

bool Task::told_before(std::string_view name) {
  if (in && in->single) return std::find(told.begin(), told.end(), name) != told.end();
  if (replay == 0) return false;
  const std::string& before = told[told.size() - replay--];
  if (before != name)
    throw Error(KINORA_ERROR_DATA, "its process died, and it was tried again: expected '" + before +
                                       "' as before, got '" + std::string(name) +
                                       "'; fix the stage: it emits the same keys in the same order");
  return true;
}

bool Task::is_input(const Sample& sample) const {
  return in && !ended && (sample.get() == in->sample.get() || sample.key() == key);
}

// Returns nothing for an input, for a held input, and for a sample that finish() emits while nothing is held.
// The parents of a batch's samples include inputs that have ended, since none is reported before the call is
// over.
Tracks Task::parents_of(const Sample& sample) {
  Tracks of = std::exchange(named, {});
  if (is_input(sample) || held->contains(sample.key())) return {};
  if (!of.empty()) return of;
  if (!batch.empty()) return batch;
  if (in) of.push_back(in->track);
  for (const auto& [key, one] : *held) of.push_back(one.track);
  return of;
}

// Fails a sample with the key of another sample, or of its own source: if both were stored, one would
// overwrite the other, and their outcomes could not be distinguished.
bool Task::refuse_key(Sample& sample, const Tracks& of) {
  const std::string name(sample.key()), emitted_by = "stage '" + std::string(stage.spec->name) + "' emitted ";
  std::string why;
  if (keys.contains(name) && !held->contains(name))
    why = emitted_by + "two samples called '" + name + "', and this is the second";
  else if (std::any_of(of.begin(), of.end(), [&](const auto& track) { return is_of(*track, name); }))
    why = emitted_by + "a sample called '" + name + "', the key of the input that it was made of";
  else
    return false;
  end_here(std::move(sample), of,
           End::failed(stage.spec->name, KINORA_ERROR_DATA,
                       why + "; fix the stage: each sample needs its own key"));
  return true;
}

void Task::end_here(Sample sample, const Tracks& of, End how) {
  Weight weight = weigh(sample);
  const std::lock_guard lock(runner.mutex());
  if (runner.stopping()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
  const Origin from = origin(sample, of);
  ++(how.end == KINORA_OUTCOME_FILTERED ? stage.figures.dropped : stage.figures.failed);
  runner.ledger().samples().add(weight);
  runner.lineage().end(from.track, std::move(how), std::move(sample), std::move(weight));
}

// The weight that leaves the ledger as this sample enters it: the input that continues, or a held input; else
// null.
Weight* Task::leaving(const Sample& sample) {
  if (in && !ended && sample.get() == in->sample.get()) return &in->weight;
  if (in && !ended && sample.key() == key) return nullptr;
  const auto at = held->find(sample.key());
  return at == held->end() ? nullptr : &at->second.weight;
}

// A process emits its input as another sample object: both exist until the task ends.
const Weight* Task::replaced(const Sample& sample, const Weight* out) const {
  return !out && in && !ended && sample.key() == key ? &in->weight : out;
}

Held Task::take_held(Holding::iterator at) {
  Held one = std::move(at->second);
  held->erase(at);
  Scheduler::expect_no_more(stage, one.place, one.emitted);
  runner.ledger().beside().remove(one.beside);
  return one;
}

// The record and the position of an emitted sample: of the input itself, of a held input, or of a new sample.
Origin Task::origin(const Sample& sample, const Tracks& of) {
  touched = true;
  const std::string name(sample.key());
  keys.emplace(name);
  const bool input = is_input(sample);
  if (const auto at = input ? held->end() : held->find(name); at != held->end()) {
    Held one = take_held(at);
    runner.ledger().samples().remove(one.weight);
    return {std::move(one.track), below(one.place, one.emitted)};
  }
  note_told(name, of);
  if (Held* parent = first_of(of)) {
    const Place at = below(parent->place, parent->emitted);
    Scheduler::expect_no_more(stage, parent->place, parent->emitted);
    Scheduler::expect(stage, parent->place, ++parent->emitted);
    return {Lineage::child(of, name, stage.index + 1), at};
  }
  Origin from{input ? in->track : Lineage::child(of, name, stage.index + 1), below(place, emitted)};
  if (input) {
    ended = true;
    holds = false;
  }
  Scheduler::expect_no_more(stage, place, emitted);
  Scheduler::expect(stage, place, ++emitted);
  return from;
}

// The first input that a batch made the sample of: the sample takes its position from it, as if that input
// had been processed alone.
Held* Task::first_of(const Tracks& parents) {
  Held* first = nullptr;
  for (auto& [key, one] : *held)
    if (!batch.empty() && std::find(parents.begin(), parents.end(), one.track) != parents.end() &&
        (!first || one.place < first->place))
      first = &one;
  return first;
}

// Only an attempt in a process of its own, or of a batch, is repeated.
void Task::note_told(const std::string& name, const Tracks& of) {
  if (slot->instance->is_apart()) told.push_back(name);
  for (auto& [key, one] : *held)
    if (!batch.empty() && std::find(of.begin(), of.end(), one.track) != of.end()) one.told.push_back(name);
}

void Task::use_alone(std::unique_ptr<Instance> instance) {
  own_.emplace(Slot{slot->number, std::move(instance), slot->devices, {}, false, slot->node});
  slot = &*own_;
  held = &own_->held;
}

void Task::let_go() {
  if (own_ && own_->instance) {
    own_->instance.reset();
    --stage.instances;
  }
  in.reset();
  job.in.clear();
  inputs.clear();
  together.clear();
  emission_.reset();
  buried.reset();
}

}  // namespace kinora::engines
