// Several inputs in one call of process_batch(). While it runs they are like inputs that the stage holds: it
// ends them in any order.
#include "plugins/engines/common/remote.hpp"
#include "plugins/engines/common/task.hpp"

namespace kinora::engines {
namespace {

// Number of the first sample that a batch makes after it has ended its inputs, among those at the place of
// the first: above all that process() may make.
constexpr uint64_t kOfBatch = uint64_t{1} << 62;

}  // namespace

void Runner::call_batch(Task& task) {
  task.place = task.job.in.front().place;
  task.emitted = kOfBatch;
  task.reserve = task.job.reserve;
  task.held = &task.together;
  for (Item& item : task.job.in) {
    task.batch.push_back(item.track);
    task.inputs.push_back(item.sample);
    Held held{std::move(item.track), std::move(item.place), item.emitted, std::move(item.sample),
              std::move(item.weight)};
    task.together.emplace(task.inputs.back().key(), std::move(held));
  }
  task.key = task.inputs.front().key();
  {
    const Lock lock(mutex_);
    Scheduler::expect(task.stage, task.place, kOfBatch);
  }
  task.start = now();
  task.call = Task::Call::process_batch;
  send(task);
}

void Runner::batch_done(Task& task, int32_t status, const std::string& message) {
  StageState& stage = task.stage;
  const size_t n = task.batch.size();
  if (trace_)
    trace_->span(stage.index, stage.spec->name, task.slot->number,
                 task.key + " and " + std::to_string(n - 1) + " more", task.start, task.waited,
                 status == KINORA_OK ? "ok" : message.c_str());
  {
    const Lock lock(mutex_);
    const double seconds = seconds_between(task.start, now()) - task.waited;
    stage.figures.in += n;
    stage.figures.seconds += seconds;
    stage.figures.squares += seconds * seconds / static_cast<double>(n);
    ledger_.release(task.reserve);
    if (task.slot->instance->ended()) bury_batch(task, message);
    if (!stopping()) {
      for (const auto& track : task.batch) lineage_.end_work(track);
      complete_batch(task, n, status, message);
      Scheduler::expect_no_more(stage, task.place, task.emitted);
    }
    std::erase_if(task.inputs, remote_of);  // their pieces go before others get their room
  }
  end(task);
}

// The instance has died of the batch: its inputs are tried one by one, unless it kept more than them.
void Runner::bury_batch(Task& task, const std::string& message) {
  StageState& stage = task.stage;
  ++stage.figures.died;
  stage.figures.redone += task.slot->instance->lost();
  task.buried = std::move(task.slot->instance);
  --stage.instances;
  if (!stage.may_start_anew) abort(KINORA_ERROR_FAILED, of_stage(stage, message));
}

// Inputs that the stage has not ended are consumed, or, after an error, processed again one at a time.
void Runner::complete_batch(Task& task, size_t n, int32_t status, const std::string& message) {
  StageState& stage = task.stage;
  if (ends_run(stage, status, message)) return;
  if (status != KINORA_OK && task.held->empty()) return note_error_after(task, message);
  if (status != KINORA_OK && !std::exchange(stage.said_batch, true))
    log(Log::warn, of_stage(stage, "a batch of " + std::to_string(n) + " failed (" + message +
                                       "); its inputs are tried one by one, as after every failed batch; if "
                                       "all fail for lack of memory, lower the batch"));
  while (!task.held->empty()) {
    Held held = std::move(task.held->begin()->second);
    task.held->erase(task.held->begin());
    if (status == KINORA_OK) {
      Scheduler::expect_no_more(stage, held.place, held.emitted);
      if (held.told.empty()) ++stage.figures.without_result;
      lineage_.end(held.track, End::consumed_by(stage.spec->name), std::move(held.sample),
                   std::move(held.weight));
    } else {
      ++stage.figures.retried;
      Scheduler::put_back(stage, {std::move(held.sample), std::move(held.weight), std::move(held.place),
                                  std::move(held.track), false, true, held.emitted, std::move(held.told)});
    }
  }
  if (status != KINORA_OK) find_lost();
}

}  // namespace kinora::engines
