// Several inputs in one call of process_batch(). While it runs they are like inputs that the stage holds: it ends them in any order.
#include "task.hpp"
#include "words.hpp"

namespace kinora::local {
namespace {

using Clock = std::chrono::steady_clock;

// Number of the first sample that a batch makes after it has ended its inputs, among those at the place of the first: above all that
// process() may make.
constexpr uint64_t kOfBatch = uint64_t{1} << 62;

}  // namespace

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
    Held held{std::move(item.track), std::move(item.place), item.emitted, std::move(item.sample), std::move(item.weight)};
    batch.emplace(samples.back().key(), std::move(held));
  }
  Task task{*this, stage, *job.slot, batch, std::nullopt, std::string(samples.front().key()), first, kOfBatch, job.reserve, tracks};
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
    trace_->span(stage.index, stage.spec->name, job.slot->number, task.key + " and " + std::to_string(n - 1) + " more", start, task.waited,
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
                                       "); its inputs are tried one by one, as after every failed batch; if all fail for lack of memory, lower the batch"));
  while (!task.held.empty()) {
    Held held = std::move(task.held.begin()->second);
    task.held.erase(task.held.begin());
    if (status == KINORA_OK) {
      Scheduler::expect_no_more(stage, held.place, held.emitted);
      lineage_.end(held.track, End::consumed_by(stage.spec->name), std::move(held.sample), std::move(held.weight));
    } else {
      ++stage.figures.retried;
      Scheduler::put_back(stage, {std::move(held.sample), std::move(held.weight), std::move(held.place), std::move(held.track), false, true,
                                  held.emitted, std::move(held.told)});
    }
  }
}

}  // namespace kinora::local
