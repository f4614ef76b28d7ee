// The calls of a stage while it works: emit, drop, fail, hold, stored; made_of is in parents.cpp.
#include <algorithm>

#include "execution.hpp"
#include "words.hpp"

namespace kinora::local {

kinora_emit Execution::emit_table(Task& task) {
  static const auto of = [](void* self) -> Task& { return *static_cast<Task*>(self); };
  return {sizeof(kinora_emit),
          0,
          &task,
          [](void* self, kinora_sample* s) {
            return guard([&] { of(self).execution.emit(of(self), Sample::adopt(s)); });
          },
          [](void* self, kinora_sample* s, const char* rule, double score) {
            return guard([&] { of(self).execution.drop(of(self), Sample::adopt(s), rule, score); });
          },
          [](void* self) { return guard([&] { of(self).execution.hold(of(self)); }); },
          [](void* self, kinora_str key) {
            return guard([&] { of(self).execution.stored(of(self), view(key)); });
          },
          [](void* self, kinora_sample* s, const char* reason) {
            return guard([&] { of(self).execution.fail(of(self), Sample::adopt(s), reason); });
          },
          [](void* self, const kinora_str* keys, uint64_t n) {
            return guard([&] { of(self).execution.made_of(of(self), {keys, n}); });
          }};
}

// After its process died a stage starts its sample again, and repeats the calls that it made then, in the same order.
bool Execution::told_before(Task& task, std::string_view key) {
  if (task.replay == 0) return false;
  const std::string& before = task.told[task.told.size() - task.replay--];
  if (before != key)
    throw Error(KINORA_DATA, "expected '" + before + "' as before its process ended, got '" + std::string(key) + "'");
  return true;
}

// Whether the stage has already made a sample of this key of the same input. Only the task's own thread changes both sets.
bool Execution::is_second(const Task& task, std::string_view key) const {
  return task.keys.contains(std::string(key)) && !task.slot.held.contains(key);
}

// Fails a sample with the key of another sample, or of its own source: if both were stored, one would overwrite the other, and
// their outcomes could not be distinguished.
bool Execution::refuse_key(Task& task, Sample& sample, const Tracks& of) {
  const std::string key(sample.key()), stage = "stage '" + std::string(task.stage.spec->name) + "' emitted ";
  End failed;
  if (is_second(task, key))
    failed.reason = stage + "two samples called '" + key + "', and this is the second";
  else if (std::any_of(of.begin(), of.end(), [&](const auto& track) { return is_of(*track, key); }))
    failed.reason = stage + "a sample called '" + key + "', the key of the input that it was made of";
  else
    return false;
  *failed.reason += "; fix the stage: each sample needs its own key";
  failed.end = KINORA_FAILED_AT;
  failed.status = KINORA_DATA;
  end_here(task, std::move(sample), of, std::move(failed));
  return true;
}

void Execution::emit(Task& task, Sample sample) {
  const std::string key(sample.key());
  if (told_before(task, key)) return;
  const Tracks of = parents_of(task, sample);
  if (refuse_key(task, sample, of)) return;
  Weight weight = weigh(sample);
  std::vector<Sample> copies;
  for (size_t i = 1; i < task.stage.to.size(); ++i) copies.push_back(sample.clone(task.stage.to[i]->branch_key(key)));
  Lock lock(mutex_);
  Weight* out = leaving(task, key, sample.get());
  make_room(lock, {&task, &weight, out, below(task.place, task.emitted), replaced(task, key, out)});
  Origin from = origin(task, sample, of);
  ++task.stage.figures.out;
  hand_on(task.stage.to, std::move(from), std::move(sample), std::move(weight), std::move(copies));
  dispatch();
}

void Execution::drop(Task& task, Sample sample, const char* rule, double score) {
  if (told_before(task, sample.key())) return;
  const Tracks of = parents_of(task, sample);
  if (refuse_key(task, sample, of)) return;
  End filtered;
  filtered.end = KINORA_FILTERED;
  filtered.reason = rule && *rule ? rule : task.stage.spec->name;
  filtered.score = score;
  end_here(task, std::move(sample), of, std::move(filtered));
}

void Execution::fail(Task& task, Sample sample, const char* reason) {
  if (told_before(task, sample.key())) return;
  const Tracks of = parents_of(task, sample);
  if (refuse_key(task, sample, of)) return;
  End failed;
  failed.end = KINORA_FAILED_AT;
  failed.reason = reason ? reason : "";
  failed.status = KINORA_DATA;
  end_here(task, std::move(sample), of, std::move(failed));
}

void Execution::end_here(Task& task, Sample sample, const Tracks& of, End how) {
  Weight weight = weigh(sample);
  const Lock lock(mutex_);
  if (stopping()) throw Error(KINORA_CANCELLED, "cancelled");
  const Origin from = origin(task, sample, of);
  ++(how.end == KINORA_FILTERED ? task.stage.figures.dropped : task.stage.figures.failed);
  ledger_.add(weight);
  how.stage = task.stage.spec->name;
  end(from.track, std::move(how), std::move(sample), std::move(weight));
}

void Execution::hold(Task& task) {
  const Lock lock(mutex_);
  if (!task.in || task.ended)
    throw Error(KINORA_INVALID, "hold() is for the input of process(), before it was emitted or dropped");
  task.held = task.touched = true;
}

void Execution::stored(Task& task, std::string_view key) {
  const Lock lock(mutex_);
  if (task.in && task.held && !task.ended && key == task.key) {
    task.held = false;
    return;
  }
  const auto at = task.slot.held.find(key);
  if (at == task.slot.held.end())
    throw Error(KINORA_NOT_FOUND,
                "stored() of '" + std::string(key) + "', which this stage does not hold");
  Held held = std::move(at->second);
  task.slot.held.erase(at);
  leave(task.stage, held.place, held.emitted);
  beside_.remove(held.beside);
  End consumed;
  consumed.stage = task.stage.spec->name;
  consumed.consumed = true;
  end(held.track, std::move(consumed), std::move(held.sample), std::move(held.weight));
}

// The weight that leaves the ledger as this sample enters it: the input that continues, or a held input; else null.
Weight* Execution::leaving(Task& task, std::string_view key, const kinora_sample* sample) {
  if (task.in && !task.ended && sample == task.in->sample.get()) return &task.in->weight;
  if (task.in && !task.ended && key == task.key) return nullptr;
  const auto at = task.slot.held.find(key);
  return at == task.slot.held.end() ? nullptr : &at->second.weight;
}

// A process emits its input as another sample object: both exist until the task ends.
const Weight* Execution::replaced(const Task& task, std::string_view key, const Weight* out) const {
  return !out && task.in && !task.ended && key == task.key ? &task.in->weight : out;
}

// Waits until the sample fits, and counts its weight.
void Execution::make_room(Lock& lock, Waiting waiting) {
  Task& task = *waiting.task;
  if (stopping()) throw Error(KINORA_CANCELLED, "cancelled");
  reserved_ -= std::exchange(task.reserve, 0);
  if (fits(waiting)) return account(waiting);
  const auto start = std::chrono::steady_clock::now();
  --active_;
  give(task.stage, &task.slot);
  waiting_.push_back(&waiting);
  dispatch();
  waiting.go.wait(lock, [&] { return waiting.granted || stopping(); });
  task.waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (waiting.granted) return;
  std::erase(waiting_, &waiting);
  ++active_;
  take(task.stage, &task.slot);
  throw Error(KINORA_CANCELLED, "cancelled");
}

void Execution::account(const Waiting& waiting) {
  const uint64_t before = ledger_.used();
  const Weight* replaced = waiting.replaced == waiting.out ? nullptr : waiting.replaced;
  if (waiting.out) ledger_.remove(std::exchange(*waiting.out, {}));
  ledger_.add(*waiting.in);
  const uint64_t after = ledger_.used();
  if (after <= before) return;
  StageState& stage = waiting.task->stage;
  stage.largest = std::max(stage.largest, after - before);
  if (pipeline_.memory > 0 && after > pipeline_.memory && !stage.said_large) say_large(stage, before, after, replaced);
}

// Logged once per stage: tells the user what makes samples larger than the bound.
void Execution::say_large(StageState& stage, uint64_t before, uint64_t after, const Weight* replaced) {
  const uint64_t bound = pipeline_.memory, left = ledger_.after({}, replaced), more = left - std::min(left, before);
  if (more == 0 || (before > bound && more < bound / 4)) return;
  stage.said_large = true;
  const auto mib = [](uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; };
  log(Log::warn, of_stage(stage, "a sample that it made " + mib(more) + " larger needs " + mib(after) +
                                     " with the others, more than memory = " + mib(bound) +
                                     "; such samples pass one at a time; raise the job's memory for more"));
}

// The track and the position of an emitted sample: of the input itself, of a held input, or of a new
// sample.
Execution::Origin Execution::origin(Task& task, const Sample& sample, const Tracks& of) {
  task.touched = true;
  const std::string key(sample.key());
  const bool input = is_input(task, sample);
  if (!input) {
    const auto at = task.slot.held.find(key);
    if (at != task.slot.held.end()) {
      Held held = std::move(at->second);
      task.slot.held.erase(at);
      leave(task.stage, held.place, held.emitted);
      ledger_.remove(held.weight);
      beside_.remove(held.beside);
      task.keys.emplace(key);
          return {std::move(held.track), below(held.place, held.emitted)};
    }
  }
  if (task.slot.instance.is_apart()) task.told.emplace_back(key);  // without a process of its own, no attempt is repeated
  task.keys.emplace(key);
  Origin from;
  if (input) {
    from.track = task.in->track;
    task.ended = true;
    task.held = false;
  } else {
    from.track = child_of(of, key);
  }
  from.place = below(task.place, task.emitted);
  leave(task.stage, task.place, task.emitted);
  enter(task.stage, task.place, ++task.emitted);
  return from;
}

// Puts the sample into the queue of each stage that takes it; every one but the first gets a copy, a separate sample.
void Execution::hand_on(const std::vector<StageState*>& to, Origin from, Sample sample, Weight weight,
                        std::vector<Sample> copies) {
  if (to.empty()) return end(from.track, {}, std::move(sample), std::move(weight));
  for (size_t i = to.size(); i-- > 0;) {
    if (i > 0) ledger_.add(weight);
    const auto track = i > 0 ? child_of({from.track}, copies[i - 1].key()) : from.track;
    Item item{i > 0 ? std::move(copies[i - 1]) : std::move(sample), weight, to.size() > 1 ? below(from.place, i) : from.place, track};
    enter(*to[i], item.place, 0);
    Place place = item.place;
    to[i]->queue.emplace(std::move(place), std::move(item));
  }
}

void Execution::enter(StageState& stage, const Place& place, uint64_t emitted) {
  for (StageState* next : stage.ordered) next->ahead.add(below(place, emitted));
}

void Execution::leave(StageState& stage, const Place& place, uint64_t emitted) {
  for (StageState* next : stage.ordered) next->ahead.remove(below(place, emitted));
}

}  // namespace kinora::local
