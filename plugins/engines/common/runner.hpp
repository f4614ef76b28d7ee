// One run of a pipeline: what calls of stages cost and give, what is tried again, and the owner's thread,
// which reports outcomes.
//
// scheduler.hpp chooses what runs next, ledger.hpp counts the memory, lineage.hpp knows what each sample was
// made of and ends it; task.hpp is one call of a stage. The engine's Executor makes instances and calls them,
// and its clock is the only time: a run is a state machine, whose events may come from any thread. One mutex
// guards all four and the states of the stages; it is never held while a plugin or the pipeline's owner is
// called.
#pragma once
#include <atomic>
#include <map>
#include <mutex>
#include <unordered_map>

#include "kinora/run.hpp"
#include "plugins/engines/common/advice.hpp"
#include "plugins/engines/common/clock.hpp"
#include "plugins/engines/common/figures.hpp"
#include "plugins/engines/common/remake.hpp"
#include "plugins/engines/common/scheduler.hpp"

namespace kinora::engines {

struct Settings {
  std::vector<Tokens> nodes{Tokens{}};  // of the machines; the first instances are on the first one
  uint64_t queue = 64;                  // samples that may wait for one stage, for each node
  int64_t retries = 2;
  double backoff = 0.2;       // seconds before the first retry; each further retry waits four times as long
  int64_t death_retries = 1;  // further attempts at a sample whose process died
  int64_t node_losses = 8;    // further attempts at a sample whose node or whose bytes were lost
  bool remakes = false;       // the source's samples are kept until they were reported, for lose()
  bool profile = false;       // trace.json in the run's folder
  Clock now = std::chrono::steady_clock::now;
};

class Runner {
 public:
  Runner(const kinora_pipeline& pipeline, const Run& run, const Settings& settings, Executor& executor);
  // All that was posted to the executor must be over.
  ~Runner();
  // [owner-thread] Call it once. Throws Error.
  void run();
  // [owner-thread] Ends what runs, after an exception of the owner has left run().
  void stop();

  // [any-thread]
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }
  int32_t cancelled() const;
  Time now() const { return settings_.now(); }
  // [without the lock] A node has come, whose number is the next one.
  void add_node(const Tokens& has);
  // [without the lock] The node has so many cores less than it seemed.
  void correct_node(size_t node, double cores);
  // [without the lock] All instances on the node have ended, or are about to; nothing starts there any more.
  void lose_node(size_t node);
  // [without the lock] The bytes of the samples for which `is_lost` holds are gone. Those in a queue or before their
  // report are made again of their nearest ancestor that the engine has whole; so are those that a stage works on or
  // holds, if the call fails or the instance dies after this. Nothing is told twice. A sample comes back at most
  // Settings::node_losses times; Settings::remakes must be set. is_lost: called under the run's lock, by any thread,
  // until the run ends, for every sample that is emitted: call this once a node rather than once a sample.
  void lose(const std::function<bool(const Sample&)>& is_lost);
  // [without the lock] The call of the task's instance has ended.
  void done(Task& task, int32_t status, std::string message);

  // For tasks. All but mutex() under the lock.
  std::mutex& mutex() { return mutex_; }
  Ledger& ledger() { return ledger_; }
  Lineage& lineage() { return lineage_; }
  Scheduler& scheduler() { return scheduler_; }
  bool remakes() const { return settings_.remakes; }
  bool is_lost(const Sample& sample) const;
  // Looks for lost samples and makes them again.
  void find_lost();
  // A sample that a task emits which only makes others again.
  void emitted_again(Task& task, Sample sample);
  // Starts what can run now. here: the calling thread is free for one job in a moment.
  void dispatch(bool here = false);

 private:
  using Lock = std::unique_lock<std::mutex>;

  // runner.cpp: the owner's thread, and jobs from start to end. Functions without a Lock argument are called
  // under it, unless stated otherwise.
  void look_around(Lock& lock);
  void report_outcomes(Lock& lock);
  int32_t report(const Track& track, std::string& message);  // not under the lock
  std::string figures(double seconds);                       // not under the lock
  double until_next() const;
  void abort(int32_t code, const std::string& message);
  void halt();
  // A stage cannot process any sample (KINORA_ERROR_REFUSED): starts nothing more; the run aborts when that
  // stage's running tasks have ended.
  void refuse(const StageState& stage, const std::string& message);
  bool refused_is_told() const;
  void begin(Job job, bool here);
  void resume_due(bool all = false);
  Task& add(Job job, Slot& slot);
  // Not under the lock. Does f; if it throws, the run aborts and the task's job ends.
  template <class F>
  void step(Task& task, F&& f);
  template <class F>
  bool guarded(F&& f);
  void end(Task& task);  // not under the lock
  void end(const Job& job);

  // runner_attempt.cpp: the job that pulls an input, and that of one sample. Not under the lock, except
  // complete_input, keep_back and fail.
  void pull(const Reserve& reserve);
  void pull_input(const Reserve& reserve);
  void process(Task& task);
  void make(Task& task, Executor::Started started);
  void call(Task& task);
  void start_alone(Task& task);
  void lose_alone(Task& task, const Error& why);
  void attempt(Task& task);
  void again(Task& task);
  void send(Task& task);
  void attempted(Task& task, int32_t status, std::string message);
  void conclude(Task& task, int32_t status, const std::string& message);
  int32_t said(int32_t status, std::string& message) const;
  void lose_slot(Task& task, const Error& why);
  bool pause(Task& task);
  void complete(Task& task, int32_t status, const std::string& message, double seconds);
  void complete_input(Task& task, int32_t status, const std::string& message);
  bool ends_run(const StageState& stage, int32_t status, const std::string& message);
  void note_error_after(Task& task, const std::string& message);
  void keep_back(Task& task);
  void fail(const std::shared_ptr<Track>& track, StageState& stage, int32_t status,
            const std::string& message, Sample sample, Weight weight);
  kinora_run stage_run(const StageState& stage, const Slot& slot);

  // runner_batch.cpp: several inputs in one call. Not under the lock, except the last two.
  void call_batch(Task& task);
  void batch_done(Task& task, int32_t status, const std::string& message);
  void bury_batch(Task& task, const std::string& message);
  void complete_batch(Task& task, size_t n, int32_t status, const std::string& message);

  // runner_held.cpp, the end of a stage's input. Not under the lock, except fail_finish and end_left_over.
  void finish_next(StageState& stage);
  void call_finish(StageState& stage, Slot& slot);
  void finish_done(Task& task, int32_t status, const std::string& message);
  void close_slot(StageState& stage, Slot& slot);
  void fail_finish(StageState& stage, Slot& slot, int32_t status, const std::string& message);
  void end_left_over(StageState& stage, Slot& slot, const std::string& why,
                     int32_t status = KINORA_ERROR_FAILED);

  // runner_held.cpp, samples whose process died. Not under the lock, except the last two.
  bool remove_dead(Task& task, const std::string& why);
  void retry_after_death(Task& task, std::string message);
  void try_alone(StageState& stage, Slot& slot, const std::string& why);
  void put_back(Task& task);

  // runner_lost.cpp, samples whose bytes are gone. Under the lock, except loses_input.
  bool loses_input(Task& task, int32_t status);
  void lose_input(Task& task);
  void lose(std::vector<Lost> lost);
  const Whole* whole_of(const Track& track, size_t before) const;
  using Roots = std::map<std::pair<const Track*, const Whole*>, std::shared_ptr<Remake>>;
  std::string plan(Lost& one, Roots& roots);
  void expect_again(const Lost& one, bool expects);
  void pass_on_again(size_t after, const std::shared_ptr<Remake>& remake, Sample sample);
  void arrive_again(size_t after, StageState* at, const std::shared_ptr<Remake>& remake, Sample sample);
  void give_back(Lost one, Sample sample);
  void take_all(Remake& remake, std::vector<Lost>& out);
  void ended_again(StageState& stage, Item& in, int32_t status, const std::string& message);
  void fail_all(Remake& remake, const std::string& why);
  void fail_lost(Lost one, const std::string& message);

  const kinora_pipeline& pipeline_;
  const kinora_run& run_;
  const Settings settings_;
  Executor& executor_;
  std::mutex noise_mutex_;

  std::mutex mutex_;
  std::vector<std::unique_ptr<StageState>> stages_;
  Ledger ledger_;
  Lineage lineage_;
  Scheduler scheduler_;
  Advice advice_;
  Figures figures_;
  std::optional<Trace> trace_;
  std::unordered_map<Task*, std::unique_ptr<Task>> tasks_;
  std::vector<std::function<bool(const Sample&)>> losses_;
  std::multimap<Time, Task*> paused_;  // attempts that wait until a time

  Time begin_{};
  double reported_ = 0, looked_ = 0;  // seconds since then
  std::atomic<bool> stopping_{false};
  int32_t error_ = KINORA_OK;
  std::string error_message_;
  // The stage that returned KINORA_ERROR_REFUSED; its message, and when.
  const StageState* refused_ = nullptr;
  std::string refusal_;
  Time refused_since_;
};

template <class F>
bool Runner::guarded(F&& f) {
  const int32_t status = guard(f);
  if (status == KINORA_OK) return true;
  const std::string message = last_message(status);
  const Lock lock(mutex_);
  abort(status, message);
  return false;
}

template <class F>
void Runner::step(Task& task, F&& f) {
  if (!guarded(f)) end(task);
}

// [owner-thread] Runs it, and then in any case close(), which does what was posted to the executor. Throws Error.
template <class F>
void run_to_end(Runner& runner, F&& close) {
  try {
    runner.run();
  } catch (...) {
    runner.stop();
    close();
    throw;
  }
  close();
}

}  // namespace kinora::engines
