// The inputs that an instance holds: at the end of the stage's input, finish() ends them, and
// those that no instance ended fail; if the instance's process dies, those that may be to blame are tried again.
//
// If a process worked on one sample and held nothing, that one is to blame, and is tried again as often as
// the options allow. If it held others, any of them may be to blame: a batch dies of one of its samples. So
// all of them return to the queue to be tried alone, each in a process that receives nothing else, and
// finish() after it. A sample whose process dies then is to blame.
#include "plugins/engines/common/task.hpp"

namespace kinora::engines {

// Calls finish() of the stage's next instance; after the last, the stage has finished.
void Runner::finish_next(StageState& stage) {
  bool called = false;
  guarded([&] {
    for (auto& slot : stage.slots) {
      if (stopping()) return;
      if (!slot->instance || std::exchange(slot->finished, true)) continue;
      if (stage.finishes) {
        call_finish(stage, *slot);
        called = true;
        return;
      }
      close_slot(stage, *slot);
    }
    const Lock lock(mutex_);
    if (stage.has_more()) {  // held by a process that died just now, or lost
      stage.finishing = false;
      return;
    }
    Scheduler::expect_no_more(stage, stage.finish_place(), stage.finish_emitted);
    stage.finished = true;
  });
  if (called) return;
  const Lock lock(mutex_);
  end(Job{Job::finish, &stage});
}

void Runner::call_finish(StageState& stage, Slot& slot) {
  Task* task;
  {
    const Lock lock(mutex_);
    task = &add(Job{Job::finish, &stage, &slot}, slot);
  }
  step(*task, [&] {
    task->place = stage.finish_place();
    task->emitted = stage.finish_emitted;
    task->start = now();
    task->call = Task::Call::finish;
    send(*task);
  });
}

void Runner::finish_done(Task& task, int32_t status, const std::string& message) {
  StageState& stage = task.stage;
  Slot& slot = *task.slot;
  {
    const Lock lock(mutex_);
    stage.finish_emitted = task.emitted;
    stage.figures.seconds += seconds_between(task.start, now()) - task.waited;
    if (status == KINORA_ERROR_CANCELLED) abort(status, "cancelled");
    if (status == KINORA_ERROR_REFUSED) abort(KINORA_ERROR_INVALID, of_stage(stage, message));
    const bool died = slot.instance->ended();
    stage.figures.died += died;
    if (died && stage.may_start_anew && (!slot.held.empty() || slot.instance->lost())) {
      log(Log::warn, of_stage(stage, message + " in finish(): the " + std::to_string(slot.held.size()) +
                                         " inputs that it still held are tried again alone, or lost"));
      try_alone(stage, slot, message);
    } else if (status != KINORA_OK && !stopping()) {
      fail_finish(stage, slot, status, died ? message + " in finish()" : message);
    }
  }
  close_slot(stage, slot);
  {
    const Lock lock(mutex_);
    tasks_.erase(&task);
  }
  finish_next(stage);
}

void Runner::close_slot(StageState& stage, Slot& slot) {
  const bool ended = slot.instance->ended();
  if (ended) {
    slot.instance.reset();
    --stage.instances;
  }
  const Lock lock(mutex_);
  if (ended) stage.free.take(slot), stage.free.put(slot);
  end_left_over(stage, slot, kNeverTold);
}

// If held inputs are left that can report the error, it costs only those. An instance that keeps more state,
// or that has no held input left, may have lost data that no outcome would report: then the run fails.
void Runner::fail_finish(StageState& stage, Slot& slot, int32_t status, const std::string& message) {
  if (!stage.may_start_anew || slot.held.empty()) return abort(status, of_stage(stage, message));
  log(Log::warn, of_stage(stage, message + " in finish(): the " + std::to_string(slot.held.size()) +
                                     " inputs that it still held fail, the run continues"));
  end_left_over(stage, slot, message, status);
}

void Runner::end_left_over(StageState& stage, Slot& slot, const std::string& why, int32_t status) {
  for (auto& [key, held] : slot.held) {
    Scheduler::expect_no_more(stage, held.place, held.emitted);
    ledger_.beside().remove(held.beside);
    fail(held.track, stage, status, why, std::move(held.sample), std::move(held.weight));
  }
  slot.held.clear();
}

// Removes the task's dead process. Returns whether the task's own sample is one of several that may be to
// blame.
bool Runner::remove_dead(Task& task, const std::string& why) {
  StageState& stage = task.stage;
  const size_t others = task.slot->held.size();
  task.lost = task.slot->instance->lost();
  {
    const Lock lock(mutex_);
    ++stage.figures.died;
    stage.figures.redone += task.lost;
    try_alone(stage, *task.slot, why);
  }
  task.died = true;
  task.slot->instance.reset();
  --stage.instances;
  if (task.lost || others == 0 || task.ended || !stage.may_start_anew || stopping()) return false;
  log(Log::warn, of_stage(stage, task.key + ": " + why + " while it held " + std::to_string(others) +
                                     " others; each is tried again alone"));
  task.again = true;
  return true;
}

// The process of the task's instance has died. The sample is tried again in a new one, as often as the options
// allow; then it fails, and the message says of what.
void Runner::retry_after_death(Task& task, std::string message) {
  const std::string how = message;
  const int64_t deaths = ++(task.lost ? task.losses : task.deaths);
  message += " in " + std::string(task.stage.spec->name);
  if (deaths == 2) message += ", twice";
  if (deaths > 2) message += ", " + std::to_string(deaths) + " times";
  // The state of an ordered stage was lost with its process.
  if (!task.stage.may_start_anew || deaths > (task.lost ? settings_.node_losses : settings_.death_retries) ||
      stopping())
    return conclude(task, KINORA_ERROR_FAILED, message);
  if (!task.lost)  // of a node the executor says so, once
    log(Log::warn, of_stage(task.stage, task.key + ": " + how + "; trying again"));
  make(task, [this, &task, message](auto instance, const Error* why) {
    step(task, [&] {
      if (!instance) {
        if (why->code() == KINORA_ERROR_CANCELLED) {
          const Lock lock(mutex_);
          abort(KINORA_ERROR_CANCELLED, "cancelled");
        }
        return conclude(task, KINORA_ERROR_FAILED, message + "; " + why->what());
      }
      task.slot->instance = std::move(instance);
      ++task.stage.instances;
      task.holds = false;
      task.replay = task.told.size();
      again(task);
    });
  });
}

// Inputs held by this slot's process: complete ones return to the queue, the others are lost with it. None is to
// blame for the loss of a node; but where finish() has been called, no instance takes more than one.
void Runner::try_alone(StageState& stage, Slot& slot, const std::string& why) {
  const bool alone = stage.finishing || !slot.instance->lost();
  for (auto at = slot.held.begin(); at != slot.held.end();) {
    Held& held = at->second;
    if (!held.whole || !stage.may_start_anew || stopping()) {
      ++at;
      continue;
    }
    ++stage.figures.retried;
    Scheduler::put_back(stage, {std::move(held.sample), std::move(held.weight), held.place,
                                std::move(held.track), alone, false, held.emitted, std::move(held.told)});
    at = slot.held.erase(at);
  }
  find_lost();
  end_left_over(stage, slot, "held by a process that was " + why + " in " + stage.spec->name);
}

// Puts the task's own sample back into the queue, like the held ones.
void Runner::put_back(Task& task) {
  ++task.stage.figures.retried;
  Item item = std::move(*task.in);
  item.alone = true;
  item.emitted = task.emitted;
  item.told = std::move(task.told);
  Scheduler::put_back(task.stage, std::move(item));
}

}  // namespace kinora::engines
