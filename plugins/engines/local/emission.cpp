// What a stage says while it works: emit, drop, hold, stored.
#include "execution.hpp"

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
          }};
}

// After its process died a stage begins its sample again; what it told of then comes again, in the same order.
bool Execution::told_before(Task& task, std::string_view key) {
  if (task.replay == 0) return false;
  const std::string& before = task.told[task.told.size() - task.replay--];
  if (before != key)
    throw Error(KINORA_DATA, "made '" + std::string(key) + "' where it had made '" + before + "' before its process ended");
  return true;
}

// Whether the stage has made a sample of this key of the same input before. The task's own thread alone changes both.
bool Execution::is_second(const Task& task, std::string_view key) const {
  return task.keys.contains(std::string(key)) && !task.slot.held.contains(key);
}

// Where both are kept it would overwrite the first, and nobody could tell which of them has ended.
void Execution::end_second(Task& task, Sample sample) {
  End failed;
  failed.end = KINORA_FAILED_AT;
  failed.reason = "stage '" + std::string(task.stage.spec->name) + "' gave two samples called '" +
                  std::string(sample.key()) + "', and this is the second; mend the stage: each needs a key of its own";
  failed.status = KINORA_DATA;
  end_here(task, std::move(sample), std::move(failed));
}

void Execution::emit(Task& task, Sample sample) {
  const std::string key(sample.key());
  if (told_before(task, key)) return;
  if (is_second(task, key)) return end_second(task, std::move(sample));
  Weight weight = weigh(sample);
  std::vector<Sample> copies;
  for (size_t i = 1; i < task.stage.to.size(); ++i) copies.push_back(sample.clone(task.stage.to[i]->branch_key(key)));
  Lock lock(mutex_);
  make_room(lock, task, weight, leaving(task, key, sample.get()));
  Origin from = origin(task, key, sample.get());
  ++task.stage.figures.out;
  hand_on(task.stage.to, std::move(from), std::move(sample), std::move(weight), std::move(copies));
  dispatch();
}

void Execution::drop(Task& task, Sample sample, const char* rule, double score) {
  if (told_before(task, sample.key())) return;
  if (is_second(task, sample.key())) return end_second(task, std::move(sample));
  End filtered;
  filtered.end = KINORA_FILTERED;
  filtered.reason = rule ? rule : "";
  filtered.score = score;
  end_here(task, std::move(sample), std::move(filtered));
}

void Execution::fail(Task& task, Sample sample, const char* reason) {
  if (told_before(task, sample.key())) return;
  if (is_second(task, sample.key())) return end_second(task, std::move(sample));
  End failed;
  failed.end = KINORA_FAILED_AT;
  failed.reason = reason ? reason : "";
  failed.status = KINORA_DATA;
  end_here(task, std::move(sample), std::move(failed));
}

void Execution::end_here(Task& task, Sample sample, End how) {
  const std::string key(sample.key());
  Weight weight = weigh(sample);
  const Lock lock(mutex_);
  if (stopping()) throw Error(KINORA_CANCELLED, "cancelled");
  const Origin from = origin(task, key, sample.get());
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
                "stored() of '" + std::string(key) + "', which this stage does not keep back");
  Held held = std::move(at->second);
  task.slot.held.erase(at);
  leave(task.stage, held.place, held.emitted);
  End consumed;
  consumed.stage = task.stage.spec->name;
  consumed.consumed = true;
  end(held.track, std::move(consumed), std::move(held.sample), std::move(held.weight));
}

// What goes out of the books as this sample comes into them: the input that goes on, or one that was kept back; else null.
Weight* Execution::leaving(Task& task, std::string_view key, const kinora_sample* sample) {
  if (task.in && !task.ended && sample == task.in->sample.get()) return &task.in->weight;
  if (task.in && !task.ended && key == task.key) return nullptr;
  const auto at = task.slot.held.find(key);
  return at == task.slot.held.end() ? nullptr : &at->second.weight;
}

// Waits until the sample may be handed on, and counts its weight.
void Execution::make_room(Lock& lock, Task& task, const Weight& in, Weight* out) {
  if (stopping()) throw Error(KINORA_CANCELLED, "cancelled");
  reserved_ -= std::exchange(task.reserve, 0);
  Waiting waiting{&task, &in, out, below(task.place, task.emitted)};
  if (fits(waiting)) return account(task, in, out);
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

void Execution::account(Task& task, const Weight& in, Weight* out) {
  const uint64_t before = ledger_.used();
  if (out) ledger_.remove(std::exchange(*out, {}));
  ledger_.add(in);
  const uint64_t after = ledger_.used();
  if (after > before) task.stage.largest = std::max(task.stage.largest, after - before);
}

// Whose end the sample's end is, and its place: the input itself going on, one that was kept back, or a new
// one.
Execution::Origin Execution::origin(Task& task, std::string_view key, const kinora_sample* sample) {
  task.touched = true;
  const bool input = task.in && !task.ended && (sample == task.in->sample.get() || key == task.key);
  if (!input) {
    const auto at = task.slot.held.find(key);
    if (at != task.slot.held.end()) {
      Held held = std::move(at->second);
      task.slot.held.erase(at);
      leave(task.stage, held.place, held.emitted);
      ledger_.remove(held.weight);
      task.keys.emplace(key);
      return {std::move(held.track), below(held.place, held.emitted)};
    }
  }
  if (task.slot.instance.is_apart()) task.told.emplace_back(key);  // else none dies that would tell it again
  task.keys.emplace(key);
  Origin from;
  if (input) {
    from.track = task.in->track;
    task.ended = true;
    task.held = false;
  } else {
    from.track = child_of(task.in ? task.in->track : nullptr);
  }
  from.place = below(task.place, task.emitted);
  leave(task.stage, task.place, task.emitted);
  enter(task.stage, task.place, ++task.emitted);
  return from;
}

std::shared_ptr<Track> Execution::child_of(const std::shared_ptr<Track>& parent) {
  auto child = std::make_shared<Track>();
  child->parent = parent;
  child->made = parent && parent->made == 0 ? 1 : 2;  // of several, in finish(): nobody knows of which
  if (parent) ++parent->open;
  return child;
}

// Into the queue of each stage that takes it; every one but the first gets a copy, a sample of its own.
void Execution::hand_on(const std::vector<StageState*>& to, Origin from, Sample sample, Weight weight,
                        std::vector<Sample> copies) {
  if (to.empty()) return end(from.track, {}, std::move(sample), std::move(weight));
  for (size_t i = to.size(); i-- > 0;) {
    if (i > 0) ledger_.add(weight);
    Item item{i > 0 ? std::move(copies[i - 1]) : std::move(sample), weight,
              to.size() > 1 ? below(from.place, i) : from.place, i > 0 ? child_of(from.track) : from.track};
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
