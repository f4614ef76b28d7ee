// Handles samples whose process died.
//
// If it worked on one and held nothing, that one is to blame, and is tried again as often as the options allow.
// If it held others, any of them may be to blame: a batch dies of one of its samples. So all of them return to the queue
// to be tried alone, each in a process that receives nothing else, and finish() after it. A sample whose process dies then is to
// blame.
#include "task.hpp"
#include "words.hpp"

namespace kinora::local {

// Removes the task's dead process. Returns whether the task's own sample is one of several that may be to blame.
bool Runner::bury(Task& task, const std::string& why) {
  StageState& stage = task.stage;
  const size_t others = task.slot.held.size();
  {
    const Lock lock(mutex_);
    ++stage.figures.died;
    try_alone(stage, task.slot, why);
  }
  task.died = true;
  task.slot.instance = Instance();
  --stage.instances;
  if (others == 0 || task.ended || !stage.may_start_anew || stopping()) return false;
  log(Log::warn, of_stage(stage, task.key + ": " + why + " while it held " + std::to_string(others) +
                                     " others; each is tried again alone"));
  task.again = true;
  return true;
}

// The process of the task's instance has died, for the deaths-th time with this sample. Returns whether there is a new process
// and the sample is to be tried again; otherwise `message` says why it failed.
bool Runner::revive(Task& task, int64_t deaths, std::string& message) {
  const std::string how = message;
  message += " in " + std::string(task.stage.spec->name);
  if (deaths == 2) message += ", twice";
  if (deaths > 2) message += ", " + std::to_string(deaths) + " times";
  // The state of an ordered stage was lost with its process.
  if (!task.stage.may_start_anew || deaths > settings_.isolation.retries || stopping()) return false;
  log(Log::warn, of_stage(task.stage, task.key + ": " + how + "; trying again"));
  try {
    task.slot.instance = make_instance(task.stage, settings_.isolation);
    ++task.stage.instances;
  } catch (const Error& e) {
    if (e.code() == KINORA_CANCELLED) {
      const Lock lock(mutex_);
      abort(KINORA_CANCELLED, "cancelled");
    }
    message += "; " + std::string(e.what());
    return false;
  }
  task.holds = false;
  task.replay = task.told.size();
  return true;
}

// Inputs held by this slot's process: complete ones return to the queue, the others are lost with it.
void Runner::try_alone(StageState& stage, Slot& slot, const std::string& why) {
  for (auto at = slot.held.begin(); at != slot.held.end();) {
    Held& held = at->second;
    if (!held.whole || !stage.may_start_anew || stopping()) {
      ++at;
      continue;
    }
    ++stage.figures.retried;
    Scheduler::put_back(stage, {std::move(held.sample), std::move(held.weight), held.place, std::move(held.track), true, false,
                                held.emitted, std::move(held.told)});
    at = slot.held.erase(at);
  }
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

}  // namespace kinora::local
