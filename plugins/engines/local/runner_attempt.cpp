// One job of a thread, from start to end.
#include "plugins/engines/local/task.hpp"

namespace kinora::local {
namespace {

using Clock = std::chrono::steady_clock;

// Number of the first sample that a batch makes after it has ended its inputs, among those at the place of
// the first: above all that process() may make.
constexpr uint64_t kOfBatch = uint64_t{1} << 62;

}  // namespace

void Runner::perform_pull(uint64_t reserve) {
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
  const uint64_t before = ledger_.samples().now();
  ledger_.samples().add(weight);
  source.largest = std::max(source.largest, ledger_.samples().now() - before);
  auto track = std::make_shared<Track>(std::string(sample.key()));
  scheduler_.hand_on(source.to, {std::move(track), {source.pulled++}}, std::move(sample), std::move(weight),
                     std::move(copies));
}

void Runner::perform_process(Job& job) {
  if (job.in.front().alone) return perform_alone(job);
  if (!make_slot(job)) return;
  job.in.size() > 1 ? perform_batch(job) : attempt(job, *job.slot);
}

// Runs in an instance that receives nothing else. The slot's own instance is destroyed first, so that two do
// not use its memory and devices; if it has a batch in progress, both exist.
void Runner::perform_alone(Job& job) {
  if (job.slot->instance && job.slot->held.empty()) {
    job.slot->instance = Instance();
    --job.stage->instances;
  }
  Slot alone{job.slot->number, {}, job.slot->devices, {}};
  try {
    alone.instance = make_instance(*job.stage, settings_.isolation);
  } catch (const Error& e) {
    if (!job.slot->instance || e.code() == KINORA_ERROR_CANCELLED) return lose_slot(job, e);
    const Lock lock(mutex_);
    ledger_.release(job.reserve);
    if (stopping()) return;
    Item& in = job.in.front();
    lineage_.end_work(in.track);
    Scheduler::expect_no_more(*job.stage, in.place, in.emitted);
    return fail(
        in.track, *job.stage, KINORA_ERROR_FAILED,
        std::string(
            "lost with a process that died of this sample or another one; could not be tried again alone, "
            "next to a process that has a batch in progress: ") +
            e.what() + "; run again, with fewer 'workers' of the stage",
        std::move(in.sample), std::move(in.weight));
  }
  ++job.stage->instances;
  attempt(job, alone);
  if (alone.instance) --job.stage->instances;
}

void Runner::attempt(Job& job, Slot& slot) {
  Task task{*this, *job.stage, slot, slot.held, std::move(job.in.front())};
  task.key = task.in->sample.key();
  task.place = task.in->place;
  task.emitted = task.in->emitted;
  task.reserve = job.reserve;
  task.told = std::move(task.in->told);
  task.keys.insert(task.told.begin(), task.told.end());
  task.replay = task.in->single ? 0 : task.told.size();
  const auto start = Clock::now();
  std::string message;
  const int32_t status = try_until(task, message);
  if (trace_)
    trace_->span(task.stage.index, task.stage.spec->name, task.slot.number, task.key, start, task.waited,
                 status == KINORA_OK ? "ok" : message.c_str());
  complete(task, status, message, seconds_since(start) - task.waited);
}

// Tries again what may succeed: reading and writing, and a sample whose process died.
int32_t Runner::try_until(Task& task, std::string& message) {
  double backoff = settings_.backoff;
  int64_t deaths = 0, retries = 0;
  for (;;) {
    const int32_t status = try_process(task, message);
    if (task.slot.instance.ended() && status != KINORA_ERROR_CANCELLED) {
      if (bury(task, message)) return status;
      if (!revive(task, ++deaths, message)) return KINORA_ERROR_FAILED;
    } else if (status == KINORA_ERROR_IO && !task.touched && retries++ < settings_.retries) {
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

int32_t Runner::try_process(Task& task, std::string& message) {
  const kinora_emit emit = task.table();
  const kinora_run run = stage_run(task.stage, task.slot);
  Instance& instance = task.slot.instance;
  int32_t status = instance.process(task.in->sample.get(), emit, run);
  // A batch of one is complete.
  if (status == KINORA_OK && task.in->alone && instance.has_finish()) status = instance.finish(emit, run);
  status = said(status, message);
  if (status != KINORA_OK || !task.in->alone || !task.holds) return status;
  message = kNeverTold;
  return KINORA_ERROR_FAILED;
}

// The status of a stage's call, with its message. A stage cannot decide that the run stops.
int32_t Runner::said(int32_t status, std::string& message) const {
  message = status == KINORA_OK ? "" : last_message(status);
  if (status != KINORA_ERROR_CANCELLED || cancelled() != KINORA_OK) return status;
  message = kNobodyAsked;
  return KINORA_ERROR_FAILED;
}

// Makes the slot's instance if there is none yet. If one more does not fit (a GPU is full), the existing ones
// continue.
bool Runner::make_slot(Job& job) {
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

// The slot's instance could not be made: the job's samples return to the queue.
void Runner::lose_slot(Job& job, const Error& why) {
  const std::string message = why.what();
  if (why.code() != KINORA_ERROR_CANCELLED) log(Log::warn, message + "; continuing with fewer workers");
  const Lock lock(mutex_);
  if (why.code() == KINORA_ERROR_CANCELLED) return abort(KINORA_ERROR_CANCELLED, message);
  if (++job.stage->lost == job.stage->slots.size()) abort(KINORA_ERROR_FAILED, message);
  ledger_.release(job.reserve);
  for (Item& in : job.in) {
    lineage_.end_work(in.track);
    Scheduler::put_back(*job.stage, std::move(in));
  }
  scheduler_.lose_slot(job);
}

bool Runner::pause(double seconds) {
  Lock lock(mutex_);
  return !stop_changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return stopping(); });
}

void Runner::complete(Task& task, int32_t status, const std::string& message, double seconds) {
  const std::shared_ptr<Track> track = task.in->track;
  const Lock lock(mutex_);
  StageState& stage = task.stage;
  stage.figures.in += task.in->is_single() ? 0 : 1;
  stage.figures.seconds += seconds;
  ledger_.release(task.reserve);
  if (stopping()) return;
  lineage_.end_work(track);
  if (task.again) return put_back(task);
  complete_input(task, status, message);
  if (!task.holds) Scheduler::expect_no_more(stage, task.place, task.emitted);
  ledger_.samples().remove(task.in->weight);
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
  held.whole = stage.counts_held && task.slot.instance.is_apart();
  if (held.whole)
    held.told = std::move(task.told);
  else
    held.sample = slim(in.sample);
  task.slot.held.emplace(task.key, std::move(held));
}

void Runner::fail(const std::shared_ptr<Track>& track, StageState& stage, int32_t status,
                  const std::string& message, Sample sample, Weight weight) {
  ++stage.figures.failed;
  lineage_.end(track, End::failed(stage.spec->name, status, message), std::move(sample), std::move(weight));
}

kinora_run Runner::stage_run(const StageState& stage, const Slot& slot) {
  kinora_run run = run_;
  run.struct_size = sizeof run;
  // Relative to the run's own device.
  if (!slot.devices.empty()) run.device_id = run_.device_id + static_cast<int32_t>(slot.devices.front());
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

// Several inputs in one call of process_batch(). While it runs they are like inputs that the stage holds: it
// ends them in any order.
void Runner::perform_batch(Job& job) {
  StageState& stage = *job.stage;
  const Place first = job.in.front().place;
  const size_t n = job.in.size();
  Holding batch;
  Tracks tracks;
  std::vector<Sample> samples;
  for (Item& item : job.in) {
    tracks.push_back(item.track);
    samples.push_back(item.sample);
    Held held{std::move(item.track), std::move(item.place), item.emitted, std::move(item.sample),
              std::move(item.weight)};
    batch.emplace(samples.back().key(), std::move(held));
  }
  Task task{*this, stage,    *job.slot,   batch, std::nullopt, std::string(samples.front().key()),
            first, kOfBatch, job.reserve, tracks};
  {
    const Lock lock(mutex_);
    Scheduler::expect(stage, first, kOfBatch);
  }
  std::vector<kinora_sample*> inputs;
  for (const Sample& sample : samples) inputs.push_back(sample.get());
  const auto start = Clock::now();
  const kinora_emit emit = task.table();
  const kinora_run run = stage_run(stage, *job.slot);
  std::string message;
  const int32_t status = said(job.slot->instance.process_batch(inputs, emit, run), message);
  if (trace_)
    trace_->span(stage.index, stage.spec->name, job.slot->number,
                 task.key + " and " + std::to_string(n - 1) + " more", start, task.waited,
                 status == KINORA_OK ? "ok" : message.c_str());
  const Lock lock(mutex_);
  stage.figures.in += n;
  stage.figures.seconds += std::chrono::duration<double>(Clock::now() - start).count() - task.waited;
  ledger_.release(task.reserve);
  if (stopping()) return;
  for (const auto& track : tracks) lineage_.end_work(track);
  complete_batch(task, n, status, message);
  Scheduler::expect_no_more(stage, first, task.emitted);
}

// Inputs that the stage has not ended are consumed, or, after an error, processed again one at a time.
void Runner::complete_batch(Task& task, size_t n, int32_t status, const std::string& message) {
  StageState& stage = task.stage;
  if (ends_run(stage, status, message)) return;
  if (status != KINORA_OK && task.held.empty()) return note_error_after(task, message);
  if (status != KINORA_OK && !std::exchange(stage.said_batch, true))
    log(Log::warn, of_stage(stage, "a batch of " + std::to_string(n) + " failed (" + message +
                                       "); its inputs are tried one by one, as after every failed batch; if "
                                       "all fail for lack of memory, lower the batch"));
  while (!task.held.empty()) {
    Held held = std::move(task.held.begin()->second);
    task.held.erase(task.held.begin());
    if (status == KINORA_OK) {
      Scheduler::expect_no_more(stage, held.place, held.emitted);
      lineage_.end(held.track, End::consumed_by(stage.spec->name), std::move(held.sample),
                   std::move(held.weight));
    } else {
      ++stage.figures.retried;
      Scheduler::put_back(stage, {std::move(held.sample), std::move(held.weight), std::move(held.place),
                                  std::move(held.track), false, true, held.emitted, std::move(held.told)});
    }
  }
}

}  // namespace kinora::local
