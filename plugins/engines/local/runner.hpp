// One run of a pipeline: threads that do what the scheduler chooses, and the thread of the pipeline's owner,
// which reports outcomes.
//
// scheduler.hpp chooses what runs next, resources.hpp counts the memory, lineage.hpp knows what each sample
// was made of and ends it, and this file and task.hpp call the stages. One mutex guards all four and the
// states of the stages; it is never held while a plugin or the pipeline's owner is called.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "kinora/run.hpp"
#include "plugins/engines/local/advice.hpp"
#include "plugins/engines/local/figures.hpp"
#include "plugins/engines/local/scheduler.hpp"

namespace kinora::local {

struct Settings {
  Tokens total;
  uint64_t queue = 64;  // samples that may wait for one stage
  int64_t retries = 2;
  double backoff = 0.2;  // seconds before the first retry; each further retry waits four times as long
  Isolation isolation{};
  bool profile = false;  // trace.json in the run's folder
};

struct Task;

class Runner {
 public:
  Runner(const kinora_pipeline& pipeline, const Run& run, const Settings& settings);
  ~Runner();
  // [owner-thread] Call it once. Throws Error.
  void run();

  // [any-thread]
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }
  int32_t cancelled() const;

  // For tasks. All but mutex() under the lock.
  std::mutex& mutex() { return mutex_; }
  Ledger& ledger() { return ledger_; }
  Lineage& lineage() { return lineage_; }
  Scheduler& scheduler() { return scheduler_; }
  // Starts what can run now.
  // here: jobs that the calling thread takes next, for which no other thread need wake.
  void dispatch(size_t here = 0);

 private:
  using Lock = std::unique_lock<std::mutex>;

  // runner.cpp: the owner's thread and the pool. Functions without a Lock argument are called under it,
  // unless stated otherwise.
  void report_outcomes(Lock& lock);
  int32_t report(const Track& track, std::string& message);  // not under the lock
  std::string figures(double seconds);                       // not under the lock
  void abort(int32_t code, const std::string& message);
  // A stage cannot process any sample (KINORA_ERROR_REFUSED): starts nothing more; the run aborts when that
  // stage's running tasks have ended.
  void refuse(const StageState& stage, const std::string& message);
  bool refused_is_told() const;
  bool spawn();
  void work();
  void perform(Job& job);  // not under the lock

  // runner_attempt.cpp: one job from start to end. Not under the lock, except complete_input, keep_back and
  // fail.
  void perform_pull(uint64_t reserve);
  void perform_process(Job& job);
  void perform_alone(Job& job);
  void attempt(Job& job, Slot& slot);
  int32_t try_until(Task& task, std::string& message);
  int32_t try_process(Task& task, std::string& message);
  int32_t said(int32_t status, std::string& message) const;
  bool make_slot(Job& job);
  void lose_slot(Job& job, const Error& why);
  bool pause(double seconds);
  void complete(Task& task, int32_t status, const std::string& message, double seconds);
  void complete_input(Task& task, int32_t status, const std::string& message);
  bool ends_run(const StageState& stage, int32_t status, const std::string& message);
  void note_error_after(Task& task, const std::string& message);
  void keep_back(Task& task);
  void fail(const std::shared_ptr<Track>& track, StageState& stage, int32_t status,
            const std::string& message, Sample sample, Weight weight);
  kinora_run stage_run(const StageState& stage, const Slot& slot);

  // Several inputs in one call. Not under the lock, except complete_batch.
  void perform_batch(Job& job);
  void complete_batch(Task& task, size_t n, int32_t status, const std::string& message);

  // runner_held.cpp, the end of a stage's input. Not under the lock, except fail_finish and end_left_over.
  void perform_finish(StageState& stage);
  bool finish_slot(StageState& stage, Slot& slot);
  void fail_finish(StageState& stage, Slot& slot, int32_t status, const std::string& message);
  void end_left_over(StageState& stage, Slot& slot, const std::string& why,
                     int32_t status = KINORA_ERROR_FAILED);

  // runner_held.cpp, samples whose process died. Not under the lock, except the last two.
  bool bury(Task& task, const std::string& why);
  bool revive(Task& task, int64_t deaths, std::string& message);
  void try_alone(StageState& stage, Slot& slot, const std::string& why);
  void put_back(Task& task);

  const kinora_pipeline& pipeline_;
  const kinora_run& run_;
  const Settings settings_;
  std::mutex noise_mutex_;

  std::mutex mutex_;
  std::condition_variable ready_changed_, owner_wakes_, stop_changed_;
  std::vector<std::unique_ptr<StageState>> stages_;
  Ledger ledger_;
  Lineage lineage_;
  Scheduler scheduler_;
  Advice advice_;
  Figures figures_;
  std::optional<Trace> trace_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;  // threads without a job

  std::atomic<bool> stopping_{false};
  bool quit_ = false;
  int32_t error_ = KINORA_OK;
  std::string error_message_;
  const StageState* refused_ =
      nullptr;  // the stage that returned KINORA_ERROR_REFUSED; its message, and when
  std::string refusal_;
  std::chrono::steady_clock::time_point refused_since_;
};

}  // namespace kinora::local
