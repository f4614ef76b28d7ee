// The end of a stage's input: calls finish() of each instance, and fails what none of them ended.
#include "task.hpp"
#include "words.hpp"

namespace kinora::local {

using Clock = std::chrono::steady_clock;

void Runner::perform_finish(StageState& stage) {
  for (auto& slot : stage.slots)
    if (slot->instance && !slot->finished && !finish_slot(stage, *slot)) return;
  const Lock lock(mutex_);
  if (!stage.queue.empty()) {  // held by a process that died just now
    stage.finishing = false;
    return;
  }
  Scheduler::expect_no_more(stage, stage.finish_place(), stage.finish_emitted);
  stage.finished = true;
}

bool Runner::finish_slot(StageState& stage, Slot& slot) {
  slot.finished = true;
  if (slot.instance.has_finish()) {
    Task task{*this, stage, slot, slot.held, std::nullopt, {}, stage.finish_place(), stage.finish_emitted};
    const kinora_emit emit = task.table();
    const kinora_run run = stage_run(stage, slot);
    const auto start = Clock::now();
    std::string message;
    const int32_t status = said(slot.instance.finish(emit, run), message);
    const Lock lock(mutex_);
    stage.finish_emitted = task.emitted;
    stage.figures.seconds += std::chrono::duration<double>(Clock::now() - start).count() - task.waited;
    if (status == KINORA_CANCELLED) abort(status, "cancelled");
    if (status == KINORA_STOP) abort(KINORA_INVALID, of_stage(stage, message));
    const bool died = slot.instance.ended();
    stage.figures.died += died;
    if (died && stage.may_start_anew && !slot.held.empty()) {
      log(Log::warn, of_stage(stage, message + " in finish(): the inputs that it still held are tried again alone, or lost"));
      try_alone(stage, slot, message);
    } else if (status != KINORA_OK && !stopping()) {
      fail_finish(stage, slot, status, died ? message + " in finish()" : message);
    }
  }
  if (slot.instance.ended()) {
    slot.instance = Instance();
    --stage.instances;
  }
  const Lock lock(mutex_);
  end_left_over(stage, slot, kNeverTold);
  return !stopping();
}

// If held inputs are left that can report the error, it costs only those. An instance that keeps more state, or that has no held
// input left, may have lost data that no outcome would report: then the run fails.
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

}  // namespace kinora::local
