// A job from start to end: the source's next input, or one call of a stage for one sample, and its repetitions.
#include "kinora/whole.hpp"
#include "plugins/engines/common/remote.hpp"
#include "plugins/engines/common/task.hpp"

namespace kinora::engines {

void Runner::pull_input(const Reserve& reserve) {
  kinora_sample* next = nullptr;
  const int32_t status = pipeline_.next(pipeline_.self, &next);
  if (status != KINORA_OK) {
    const std::string message = status == KINORA_SIGNAL_END ? "" : last_message(status);
    const Lock lock(mutex_);
    ledger_.release(reserve);
    scheduler_.source.pulling = false;
    scheduler_.source.ended = true;
    if (status != KINORA_SIGNAL_END) abort(status, message);
    return;
  }
  Sample sample = Sample::adopt(next);
  Weight weight = weigh(sample);
  std::vector<Sample> copies;
  Source& source = scheduler_.source;
  for (size_t i = 1; i < source.to.size(); ++i)
    copies.push_back(sample.clone(source.to[i]->branch_key(sample.key())));
  const Lock lock(mutex_);
  ledger_.release(reserve);
  source.pulling = false;
  const uint64_t before = ledger_.samples().now(0);
  ledger_.samples().add(weight);
  source.largest = std::max(source.largest, ledger_.samples().now(0) - before);
  auto track = std::make_shared<Track>(std::string(sample.key()));
  scheduler_.hand_on(source.to, {std::move(track), {source.pulled++}, 0, settings_.remakes},
                     std::move(sample), std::move(weight), std::move(copies));
}

void Runner::pull(const Reserve& reserve) {
  guarded([&] { pull_input(reserve); });
  const Lock lock(mutex_);
  end(Job{Job::pull});
}

void Runner::process(Task& task) {
  if (stopping()) return end(task);
  if (task.job.in.front().alone) return start_alone(task);
  if (task.slot->instance) return call(task);
  const Time start = now();
  make(task, [this, &task, start](auto instance, const Error* why) {
    step(task, [&] {
      if (!instance) return lose_slot(task, *why);
      task.slot->instance = std::move(instance);
      ++task.stage.instances;
      {
        const Lock lock(mutex_);
        task.stage.starting = seconds_between(start, now());
      }
      call(task);
    });
  });
}

// Makes an instance for the task's slot; on another node if its own is lost, also if that happens meanwhile. Where
// no node is left, the executor waits for one before it says so.
void Runner::make(Task& task, Executor::Started started) {
  {
    const Lock lock(mutex_);
    scheduler_.move(task.stage, *task.job.slot, true);
    task.slot->node = task.job.slot->node;
  }
  executor_.start(task.stage, *task.slot,
                  [this, &task, started = std::move(started)](auto instance, const Error* why) {
                    bool again = false;
                    if (!instance && why->code() != KINORA_ERROR_CANCELLED) {
                      const Lock lock(mutex_);
                      again = !stopping() && scheduler_.has_lost_node(*task.job.slot);
                    }
                    if (!again) return started(std::move(instance), why);
                    step(task, [&] { make(task, started); });
                  });
}

void Runner::call(Task& task) { task.job.in.size() > 1 ? call_batch(task) : attempt(task); }

// Runs in an instance that receives nothing else. The slot's own instance is destroyed first, so that two do
// not use its memory and devices; if it has a batch in progress, both exist.
void Runner::start_alone(Task& task) {
  Slot& slot = *task.job.slot;
  if (slot.instance && slot.held.empty()) {
    slot.instance.reset();
    --task.stage.instances;
  }
  make(task, [this, &task](auto instance, const Error* why) {
    step(task, [&] {
      if (!instance) return lose_alone(task, *why);
      ++task.stage.instances;
      task.use_alone(std::move(instance));
      attempt(task);
    });
  });
}

void Runner::lose_alone(Task& task, const Error& why) {
  if (!task.job.slot->instance || why.code() == KINORA_ERROR_CANCELLED) return lose_slot(task, why);
  {
    const Lock lock(mutex_);
    ledger_.release(task.job.reserve);
    const std::string message =
        std::string(
            "lost with a process that died of this sample or another one; could not be tried again alone, "
            "next to a process that has a batch in progress: ") +
        why.what() + "; run again, with fewer 'workers' of the stage";
    Item& in = task.job.in.front();
    if (!stopping()) {
      if (!in.passed) lineage_.end_work(in.track);
      if (in.remake)
        ended_again(task.stage, in, KINORA_ERROR_FAILED, message);
      else
        fail_lost({std::move(in), &task.stage}, message);
    }
  }
  end(task);
}

void Runner::attempt(Task& task) {
  task.in = std::move(task.job.in.front());
  task.key = task.in->sample.key();
  task.place = task.in->place;
  task.emitted = task.in->emitted;
  task.reserve = task.job.reserve;
  task.told = std::move(task.in->told);
  task.keys.insert(task.told.begin(), task.told.end());
  task.replay = task.in->single ? 0 : task.told.size();
  task.ended = task.in->passed;
  task.start = now();
  task.backoff = settings_.backoff;
  send(task);
}

void Runner::send(Task& task) {
  task.run = stage_run(task.stage, *task.slot);
  task.slot->instance->send(task);
}

// The call of one sample has ended. Tries again what may succeed: reading and writing, and a sample whose
// process died.
void Runner::attempted(Task& task, int32_t status, std::string message) {
  if (status == KINORA_OK && task.in->alone) {
    if (task.call == Task::Call::process && task.stage.finishes) {  // a batch of one is complete
      task.call = Task::Call::finish;
      return send(task);
    }
    if (task.holds) status = KINORA_ERROR_FAILED, message = kNeverTold;
  }
  task.gone = loses_input(task, status);
  if (task.slot->instance->ended() && status != KINORA_ERROR_CANCELLED)
    return remove_dead(task, message) || task.gone ? conclude(task, status, message)
                                                   : retry_after_death(task, std::move(message));
  if (task.gone) return conclude(task, status, message);
  if (status == KINORA_ERROR_IO && !task.touched && task.retries++ < settings_.retries) {
    log(Log::warn, of_stage(task.stage, task.key + ": " + message + "; trying again"));
    if (pause(task)) return;
  }
  conclude(task, status, message);
}

// The attempt is repeated after the backoff, unless the run ends.
bool Runner::pause(Task& task) {
  const Lock lock(mutex_);
  if (stopping()) return false;
  paused_.emplace(after(now(), std::exchange(task.backoff, 4 * task.backoff)), &task);
  executor_.wake();
  return true;
}

void Runner::again(Task& task) {
  if (stopping()) return conclude(task, KINORA_ERROR_CANCELLED, "cancelled");
  {
    const Lock lock(mutex_);
    ++task.stage.figures.retried;
  }
  task.call = Task::Call::process;
  send(task);
}

void Runner::conclude(Task& task, int32_t status, const std::string& message) {
  if (trace_)
    trace_->span(task.stage.index, task.stage.spec->name, task.slot->number, task.key, task.start,
                 task.waited, status == KINORA_OK ? "ok" : message.c_str());
  complete(task, status, message, seconds_between(task.start, now()) - task.waited);
  end(task);
}

// The status of a stage's call. A stage cannot decide that the run stops.
int32_t Runner::said(int32_t status, std::string& message) const {
  if (status != KINORA_ERROR_CANCELLED || cancelled() != KINORA_OK) return status;
  message = kNobodyAsked;
  return KINORA_ERROR_FAILED;
}

// If one more instance does not fit (a GPU is full), the existing ones continue: the job's samples return to
// the queue.
void Runner::lose_slot(Task& task, const Error& why) {
  const std::string message = why.what();
  StageState& stage = task.stage;
  if (why.code() != KINORA_ERROR_CANCELLED) log(Log::warn, message + "; continuing with fewer workers");
  {
    const Lock lock(mutex_);
    if (why.code() == KINORA_ERROR_CANCELLED) {
      abort(KINORA_ERROR_CANCELLED, message);
    } else {
      if (++stage.lost == stage.slots.size()) abort(KINORA_ERROR_FAILED, message);
      ledger_.release(task.job.reserve);
      for (Item& in : task.job.in) {
        if (!in.passed) lineage_.end_work(in.track);
        Scheduler::put_back(stage, std::move(in));
      }
      scheduler_.lose_slot(task.job);
    }
  }
  end(task);
}

void Runner::complete(Task& task, int32_t status, const std::string& message, double seconds) {
  const std::shared_ptr<Track> track = task.in->track;
  const Lock lock(mutex_);
  StageState& stage = task.stage;
  stage.figures.in += task.in->single || task.in->alone || task.gone ? 0 : 1;
  stage.figures.seconds += seconds;
  stage.figures.squares += seconds * seconds;
  ledger_.release(task.reserve);
  if (stopping()) return;
  if (task.gone && !task.remakes()) return lose_input(task);
  lineage_.end_work(track);
  if (task.again) return put_back(task);
  if (task.remakes()) return ended_again(stage, *task.in, status, message);
  complete_input(task, status, message);
  if (!task.holds) Scheduler::expect_no_more(stage, task.place, task.emitted);
  ledger_.samples().remove(task.in->weight);
  if (remote_of(task.in->sample)) task.in.reset();  // its pieces go before others get their room
}

void Runner::complete_input(Task& task, int32_t status, const std::string& message) {
  StageState& stage = task.stage;
  Item& in = *task.in;
  if (ends_run(stage, status, message)) return;
  if (status != KINORA_OK) {
    if (stage.in_order && (status == KINORA_ERROR_IO || status == KINORA_ERROR_NO_MEMORY ||
                           (task.died && !stage.may_start_anew)))
      return abort(status, of_stage(stage, message));
    if (task.ended) return note_error_after(task, message);
    task.holds = false;
    return fail(in.track, stage, status, message, in.sample, std::exchange(in.weight, {}));
  }
  if (task.ended) return;
  if (task.holds) return keep_back(task);
  if (!task.touched && task.told.empty()) ++stage.figures.without_result;
  lineage_.end(in.track, End::consumed_by(stage.spec->name), in.sample, std::exchange(in.weight, {}));
}

// KINORA_ERROR_REFUSED: the stage cannot process any sample, for example because a key was rejected: no
// sample fails.
bool Runner::ends_run(const StageState& stage, int32_t status, const std::string& message) {
  if (status == KINORA_ERROR_CANCELLED) abort(status, "cancelled");
  if (status == KINORA_ERROR_REFUSED) refuse(stage, of_stage(stage, message));
  return status == KINORA_ERROR_CANCELLED || status == KINORA_ERROR_REFUSED;
}

// A sample that was emitted or dropped has its outcome elsewhere.
void Runner::note_error_after(Task& task, const std::string& message) {
  ++task.stage.figures.errors_after;
  log(Log::warn,
      of_stage(task.stage,
               task.key + (task.batch.empty() ? "" : " and its batch") + ": " + message +
                   "; the stage had already emitted or dropped the sample, so its outcome does not change"));
}

// Its bytes stay counted. If the instance has its own process, the sample stays complete, to be tried again.
void Runner::keep_back(Task& task) {
  StageState& stage = task.stage;
  Item& in = *task.in;
  Held held{in.track, task.place, task.emitted, in.sample};
  if (stage.counts_held) held.weight = std::exchange(in.weight, {});
  if (stage.let_go) ledger_.beside().add(in.weight), held.beside = in.weight;
  held.whole = stage.counts_held && task.slot->instance->is_apart();
  if (held.whole)
    held.told = std::move(task.told);
  else
    held.sample = slim(in.sample);
  task.slot->held.emplace(task.key, std::move(held));
}

void Runner::fail(const std::shared_ptr<Track>& track, StageState& stage, int32_t status,
                  const std::string& message, Sample sample, Weight weight) {
  ++stage.figures.failed;
  lineage_.end(track, End::failed(stage.spec->name, status, message), std::move(sample), std::move(weight));
}

kinora_run Runner::stage_run(const StageState& stage, const Slot& slot) {
  kinora_run run = detail::known(&run_, "the run");
  if (stage.share > 0 && !slot.devices.empty()) {
    run.device_type = KINORA_DL_CUDA;
    run.device_id = static_cast<int32_t>(slot.devices.front());
  }
  run.n_threads = std::max(1, static_cast<int32_t>(stage.need.cores));
  run.self = this;
  // Steps of one sample are not steps of the run: only the question whether to stop is passed on.
  run.progress = [](void* self, int64_t, int64_t, kinora_tensor) {
    return static_cast<Runner*>(self)->cancelled();
  };
  run.cancelled = [](void* self) { return static_cast<Runner*>(self)->cancelled(); };
  if (!run_.noise) return run;
  run.noise = [](void* self, const char* key, kinora_tensor like, kinora_tensor* out) {
    auto& e = *static_cast<Runner*>(self);
    const std::lock_guard<std::mutex> one(e.noise_mutex_);  // the host's function is [owner-thread]
    return e.run_.noise(e.run_.self, key, like, out);
  };
  return run;
}

}  // namespace kinora::engines
