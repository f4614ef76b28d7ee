// One job of a worker, from start to end.
#include "execution.hpp"
#include "words.hpp"

namespace kinora::local {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

void Execution::perform_pull(uint64_t reserve) {
  kinora_sample* next = nullptr;
  const int32_t status = pipeline_.next(pipeline_.self, &next);
  if (status != KINORA_OK) {
    const std::string message = status == KINORA_END ? "" : last_message(status);
    const Lock lock(mutex_);
    reserved_ -= reserve;
    pulling_ = false;
    source_ended_ = true;
    if (status != KINORA_END) abort(status, message);
    return;
  }
  Sample sample = Sample::adopt(next);
  Weight weight = weigh(sample);
  std::vector<Sample> copies;
  for (size_t i = 1; i < first_.size(); ++i) copies.push_back(sample.clone(first_[i]->branch_key(sample.key())));
  const Lock lock(mutex_);
  reserved_ -= reserve;
  pulling_ = false;
  const uint64_t before = ledger_.used();
  ledger_.add(weight);
  largest_input_ = std::max(largest_input_, ledger_.used() - before);
  auto track = std::make_shared<Track>(std::string(sample.key()));
  hand_on(first_, {std::move(track), {pulled_++}}, std::move(sample), std::move(weight), std::move(copies));
}

void Execution::perform_process(Job& job) {
  if (job.in->alone) return perform_alone(job);
  if (make_slot(job)) attempt(job, *job.slot);
}

// Runs in an instance that receives nothing else. The slot's own instance is destroyed first, so that two do not use its memory and
// devices; if it has a batch in progress, both exist.
void Execution::perform_alone(Job& job) {
  if (job.slot->instance && job.slot->held.empty()) {
    job.slot->instance = Instance();
    --job.stage->instances;
  }
  Slot alone{job.slot->number, {}, job.slot->devices, {}};
  try {
    alone.instance = make_instance(*job.stage, settings_.isolation);
  } catch (const Error& e) {
    if (!job.slot->instance || e.code() == KINORA_CANCELLED) return lose_slot(job, e);
    const Lock lock(mutex_);
    reserved_ -= job.reserve;
    if (stopping()) return;
    --job.in->track->open;
    ++job.stage->figures.failed;
    leave(*job.stage, job.in->place, job.in->emitted);
    return fail(job.in->track, *job.stage, KINORA_FAILED,
                std::string("lost with a process that died of this sample or another one; could not be tried again alone, "
                            "next to a process that has a batch in progress: ") +
                    e.what() + "; run again, with fewer 'workers' of the stage",
                std::move(job.in->sample), std::move(job.in->weight));
  }
  ++job.stage->instances;
  attempt(job, alone);
  if (alone.instance) --job.stage->instances;
}

void Execution::attempt(Job& job, Slot& slot) {
  uint64_t emitted = job.in->emitted;
  Task task{*this, *job.stage, slot, std::move(job.in), {}, {}, emitted};
  task.key = task.in->sample.key();
  task.place = task.in->place;
  task.reserve = job.reserve;
  task.told = std::move(task.in->told);
  task.keys.insert(task.told.begin(), task.told.end());
  task.replay = task.told.size();
  const auto start = Clock::now();
  std::string message;
  const int32_t status = try_until(task, message);
  if (trace_)
    trace_->span(task.stage.index, task.stage.spec->name, task.slot.number, task.key, start, task.waited,
                 status == KINORA_OK ? "ok" : message.c_str());
  complete(task, status, message, seconds_since(start) - task.waited);
}

// Tries again what may succeed: reading and writing, and a sample whose process died.
int32_t Execution::try_until(Task& task, std::string& message) {
  double backoff = settings_.backoff;
  int64_t deaths = 0, retries = 0;
  for (;;) {
    const int32_t status = try_process(task, message);
    if (task.slot.instance.ended() && status != KINORA_CANCELLED) {
      if (bury(task, message)) return status;
      if (!revive(task, ++deaths, message)) return KINORA_FAILED;
    } else if (status == KINORA_IO && !task.touched && retries++ < settings_.retries) {
      log(Log::warn, of_stage(task.stage, task.key + ": " + message + "; trying again"));
      if (!pause(backoff)) return status;
      backoff *= 4;
    } else {
      return status;
    }
    const Lock lock(mutex_);
    ++task.stage.figures.retried;
  }
}

int32_t Execution::try_process(Task& task, std::string& message) {
  const kinora_emit emit = emit_table(task);
  const kinora_run run = stage_run(task.stage, task.slot);
  const Instance& instance = task.slot.instance;
  int32_t status = instance.process(task.in->sample.get(), emit, run);
  // A batch of one is complete.
  if (status == KINORA_OK && task.in->alone && instance.has_finish()) status = instance.finish(emit, run);
  status = said(status, message);
  if (status != KINORA_OK || !task.in->alone || !task.held) return status;
  message = kNeverTold;
  return KINORA_FAILED;
}

// The status of a stage's call, with its message. A stage cannot decide that the run stops.
int32_t Execution::said(int32_t status, std::string& message) const {
  message = status == KINORA_OK ? "" : last_message(status);
  if (status != KINORA_CANCELLED || cancelled() != KINORA_OK) return status;
  message = kNobodyAsked;
  return KINORA_FAILED;
}

// Makes the slot's instance if there is none yet. If one more does not fit (a GPU is full), the existing ones
// continue.
bool Execution::make_slot(Job& job) {
  if (job.slot->instance) return true;
  const auto start = Clock::now();
  try {
    job.slot->instance = make_instance(*job.stage, settings_.isolation);
    ++job.stage->instances;
    const Lock lock(mutex_);
    job.stage->starting = seconds_since(start);
    return true;
  } catch (const Error& e) {
    lose_slot(job, e);
    return false;
  }
}

// The slot's instance could not be made: the job's sample returns to the queue.
void Execution::lose_slot(Job& job, const Error& why) {
  const std::string message = why.what();
  if (why.code() != KINORA_CANCELLED) log(Log::warn, message + "; continuing with fewer workers");
  const Lock lock(mutex_);
  if (why.code() == KINORA_CANCELLED) return abort(KINORA_CANCELLED, message);
  if (++job.stage->lost == job.stage->slots.size()) abort(KINORA_FAILED, message);
  reserved_ -= job.reserve;
  --job.in->track->open;
  const Place place = job.in->place;
  job.stage->queue.emplace(place, *std::exchange(job.in, std::nullopt));
  for (const size_t device : job.slot->devices) devices_[device] -= job.stage->share;
  job.slot = nullptr;
}

bool Execution::pause(double seconds) {
  Lock lock(mutex_);
  return !stop_changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return stopping(); });
}

void Execution::complete(Task& task, int32_t status, const std::string& message, double seconds) {
  const std::shared_ptr<Track> track = task.in->track;
  const Lock lock(mutex_);
  StageState& stage = task.stage;
  stage.figures.in += task.in->alone ? 0 : 1;
  stage.figures.seconds += seconds;
  reserved_ -= task.reserve;
  if (stopping()) return;
  --track->open;
  if (task.again) return put_back(task);
  complete_input(task, status, message);
  if (!task.held) leave(stage, task.place, task.emitted);
  ledger_.remove(task.in->weight);
  settle(track);
}

void Execution::complete_input(Task& task, int32_t status, const std::string& message) {
  StageState& stage = task.stage;
  Item& in = *task.in;
  if (status == KINORA_CANCELLED) return abort(status, "cancelled");
  // The stage cannot process any sample, for example because a key was rejected: no sample fails.
  if (status == KINORA_STOP) return refuse(stage, of_stage(stage, message));
  if (status != KINORA_OK) {
    if (stage.in_order && (status == KINORA_IO || status == KINORA_NO_MEMORY || (task.died && !stage.may_start_anew)))
      return abort(status, of_stage(stage, message));
    if (task.ended) return note_error_after(task, message);
    ++stage.figures.failed;
    task.held = false;
    return fail(in.track, stage, status, message, in.sample, std::exchange(in.weight, {}));
  }
  if (task.ended) return;
  if (task.held) return keep_back(task);
  End consumed;
  consumed.stage = stage.spec->name;
  consumed.consumed = true;
  end(in.track, std::move(consumed), in.sample, std::exchange(in.weight, {}));
}

// A sample that was emitted or dropped has its outcome elsewhere.
void Execution::note_error_after(Task& task, const std::string& message) {
  ++task.stage.figures.errors_after;
  log(Log::warn, of_stage(task.stage, task.key + ": " + message + "; the stage had already emitted or dropped the sample, so its outcome does not change"));
}

// Its bytes stay counted. If the instance has its own process, the sample stays complete, to be tried again.
void Execution::keep_back(Task& task) {
  StageState& stage = task.stage;
  Item& in = *task.in;
  Held held{in.track, task.place, task.emitted, in.sample};
  if (stage.counts_held) held.weight = std::exchange(in.weight, {});
  if (stage.let_go) beside_.add(in.weight), held.beside = in.weight;
  held.whole = stage.counts_held && task.slot.instance.is_apart();
  if (held.whole)
    held.told = std::move(task.told);
  else
    held.sample = slim(in.sample);
  task.slot.held.emplace(task.key, std::move(held));
}

void Execution::fail(const std::shared_ptr<Track>& track, const StageState& stage, int32_t status,
                     const std::string& message, Sample sample, Weight weight) {
  End failed;
  failed.end = KINORA_FAILED_AT;
  failed.stage = stage.spec->name;
  failed.reason = message;
  failed.status = status;
  end(track, std::move(failed), std::move(sample), std::move(weight));
}

kinora_run Execution::stage_run(const StageState& stage, const Slot& slot) {
  kinora_run run = run_;
  run.struct_size = sizeof run;
  // Relative to the run's own device.
  if (!slot.devices.empty()) run.device_id = run_.device_id + static_cast<int32_t>(slot.devices.front());
  run.n_threads = std::max(1, static_cast<int32_t>(stage.need.cores));
  run.self = this;
  // Steps of one sample are not steps of the run: only the question whether to stop is passed on.
  run.progress = [](void* self, int64_t, int64_t, kinora_tensor) {
    return static_cast<Execution*>(self)->cancelled();
  };
  run.cancelled = [](void* self) { return static_cast<Execution*>(self)->cancelled(); };
  if (!run_.noise) return run;
  run.noise = [](void* self, const char* key, kinora_tensor like, kinora_tensor* out) {
    auto& e = *static_cast<Execution*>(self);
    const std::lock_guard<std::mutex> one(e.noise_mutex_);  // the host's function is [owner-thread]
    return e.run_.noise(e.run_.self, key, like, out);
  };
  return run;
}

}  // namespace kinora::local
