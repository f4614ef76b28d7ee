// One job of a worker, from its start to its end.
#include "execution.hpp"

namespace kinora::local {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string last_message(int32_t status) {
  const std::string text(view(host()->last_error(host())));
  return text.empty() ? "failed with status " + std::to_string(status) : text;
}

std::string of_stage(const StageState& stage, const std::string& message) {
  return "stage '" + std::string(stage.spec->name) + "': " + message;
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
  for (size_t i = 1; i < first_.size(); ++i) copies.push_back(sample.clone(sample.key()));
  const Lock lock(mutex_);
  reserved_ -= reserve;
  pulling_ = false;
  const uint64_t before = ledger_.used();
  ledger_.add(weight);
  largest_input_ = std::max(largest_input_, ledger_.used() - before);
  hand_on(first_, {std::make_shared<Track>(), {pulled_++}}, std::move(sample), std::move(weight),
          std::move(copies));
}

void Execution::perform_process(Job& job) {
  if (!make_slot(job)) return;
  uint64_t emitted = 0;
  Task task{*this, *job.stage, *job.slot, std::move(job.in), {}, {}, emitted};
  task.key = task.in->sample.key();
  task.place = task.in->place;
  task.reserve = job.reserve;
  const auto start = Clock::now();
  std::string message;
  double backoff = settings_.backoff;
  int32_t status = try_process(task, message);
  for (int64_t retry = 0; status == KINORA_IO && !task.touched && retry < settings_.retries; ++retry) {
    log(Log::warn, of_stage(task.stage, task.key + ": " + message + "; trying again"));
    if (!pause(backoff)) break;
    backoff *= 4;
    status = try_process(task, message);
    const Lock lock(mutex_);
    ++task.stage.figures.retried;
  }
  complete(task, status, message, seconds_since(start) - task.waited);
}

int32_t Execution::try_process(Task& task, std::string& message) {
  const kinora_emit emit = emit_table(task);
  const kinora_run run = stage_run(task.stage);
  const int32_t status = task.stage.spec->stage->process(task.slot.self, task.in->sample.get(), &emit, &run);
  message = status == KINORA_OK ? "" : last_message(status);
  return status;
}

// Makes the slot's instance if there is none yet. Where one more does not fit (a GPU is full), those there
// are go on.
bool Execution::make_slot(Job& job) {
  if (job.slot->self) return true;
  std::string message;
  try {
    job.slot->self = make_instance(*job.stage);
    return true;
  } catch (const Error& e) {
    message = e.what();
  }
  log(Log::warn, message + "; going on with fewer workers");
  const Lock lock(mutex_);
  reserved_ -= job.reserve;
  --job.in->track->open;
  const Place place = job.in->place;
  job.stage->queue.emplace(place, *std::exchange(job.in, std::nullopt));
  job.slot = nullptr;
  return false;
}

bool Execution::pause(double seconds) {
  Lock lock(mutex_);
  return !stop_changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return stopping(); });
}

void Execution::complete(Task& task, int32_t status, const std::string& message, double seconds) {
  const std::shared_ptr<Track> track = task.in->track;
  const Lock lock(mutex_);
  StageState& stage = task.stage;
  stage.figures.in += 1;
  stage.figures.seconds += seconds;
  reserved_ -= task.reserve;
  if (stopping()) return;
  --track->open;
  complete_input(task, status, message);
  if (!task.held) leave(stage, task.place, task.emitted);
  ledger_.remove(task.in->weight);
  settle(track);
}

void Execution::complete_input(Task& task, int32_t status, const std::string& message) {
  StageState& stage = task.stage;
  Item& in = *task.in;
  if (status == KINORA_CANCELLED) return abort(status, "cancelled");
  if (status != KINORA_OK) {
    if (stage.in_order && (status == KINORA_IO || status == KINORA_NO_MEMORY))
      return abort(status, of_stage(stage, message));
    ++stage.figures.failed;
    // What has gone on already ends elsewhere; the failure is told as one of a sample made of it.
    if (task.ended) return fail(child_of(in.track), stage, status, message, Sample(task.key), {});
    task.held = false;
    return fail(in.track, stage, status, message, in.sample, std::exchange(in.weight, {}));
  }
  if (task.ended) return;
  if (task.held) {
    task.slot.held.emplace(task.key, Held{in.track, task.place, task.emitted, slim(in.sample)});
    return;
  }
  End consumed;
  consumed.stage = stage.spec->name;
  consumed.consumed = true;
  end(in.track, std::move(consumed), in.sample, std::exchange(in.weight, {}));
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

void Execution::perform_finish(StageState& stage) {
  for (auto& slot : stage.slots)
    if (slot->self && !finish_slot(stage, *slot)) return;
  const Lock lock(mutex_);
  leave(stage, stage.finish_place(), stage.finish_emitted);
  stage.finished = true;
}

bool Execution::finish_slot(StageState& stage, Slot& slot) {
  if (stage.spec->stage->finish) {
    Task task{*this, stage, slot, std::nullopt, {}, stage.finish_place(), stage.finish_emitted};
    const kinora_emit emit = emit_table(task);
    const kinora_run run = stage_run(stage);
    const auto start = Clock::now();
    const int32_t status = stage.spec->stage->finish(slot.self, &emit, &run);
    const std::string message = status == KINORA_OK ? "" : last_message(status);
    const Lock lock(mutex_);
    stage.figures.seconds += seconds_since(start) - task.waited;
    if (status == KINORA_CANCELLED) abort(status, "cancelled");
    if (status != KINORA_OK) abort(status, of_stage(stage, message));
  }
  const Lock lock(mutex_);
  end_left_over(stage, slot);
  return !stopping();
}

void Execution::end_left_over(StageState& stage, Slot& slot) {
  for (auto& [key, held] : slot.held) {
    leave(stage, held.place, held.emitted);
    ++stage.figures.failed;
    fail(held.track, stage, KINORA_FAILED,
         "kept back by the stage, which never told its end; mend its finish()", std::move(held.sample), {});
  }
  slot.held.clear();
}

kinora_run Execution::stage_run(const StageState& stage) {
  kinora_run run = run_;
  run.struct_size = sizeof run;
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
