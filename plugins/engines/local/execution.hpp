// One run of a pipeline on this machine's threads.
//
// A pool of threads shares the cores among all stages: whenever a core is free, the most downstream task that
// can run gets it (schedule.cpp). So a slow stage takes as many cores as it needs, and samples that are nearly done,
// and their memory, go first. Cores are not assigned to stages: measured on 8 cores (dispatch_test.cpp), sharing takes
// 0.97 of the time of the balancer's allocation where that divides evenly, 0.94 where it does not, 0.61 where times
// drift, and is no slower than reallocation at no cost. The balancer decides what
// lasts (advice.hpp): how many instances, that is worker processes or copies of a model, a stage's share of the
// work needs; which stage limits the run; and the machine's best throughput. A task that waits for room releases its
// core while it waits. When nothing runs and nothing fits, the oldest sample continues all the same: hence
// no deadlock, and a single sample that is larger than the bound passes alone. Until it has passed, samples that are nearly
// done go first: of emissions that are larger than fits, one at a time exceeds the bound.
//
// One mutex guards everything below; it is never held while a plugin or the pipeline's owner is called.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_set>

#include "advice.hpp"
#include "kinora/run.hpp"
#include "stage_state.hpp"
#include "trace.hpp"

namespace kinora::local {

struct Settings {
  Tokens total;
  uint64_t queue = 64;  // samples that may wait for one stage
  int64_t retries = 2;
  double backoff = 0.2;  // seconds before the first retry; each further retry waits four times as long
  Isolation isolation{};
  bool profile = false;  // trace.json in the run's folder
};

class Execution;

// A stage at work on one sample, or in finish(): the state behind its kinora_emit.
struct Task {
  Execution& execution;
  StageState& stage;
  Slot& slot;
  std::optional<Item> in;  // none in finish()
  std::string key;         // key of `in`, which may have been passed on
  Place place;
  uint64_t& emitted;
  uint64_t reserve = 0;
  bool ended = false;    // the input was emitted, dropped or stored
  bool held = false;     // hold() was called
  bool touched = false;  // something was emitted, dropped or held: a retry would repeat it
  // The keys that were emitted for the input, in order, if the instance has a process that may die: a second
  // attempt passes on only what is new.
  std::vector<std::string> told{};
  std::unordered_set<std::string> keys{};  // all keys emitted here: none may come twice
  std::vector<std::shared_ptr<Track>> named{};  // the parents of the next new sample, as made_of() names them
  size_t replay = 0;                       // number of `told` keys that the second attempt repeats
  bool died = false;
  bool again = false;  // its process died while it held others: the input returns to the queue, to be tried alone
  double waited = 0;     // seconds without a core
};

class Execution {
 public:
  Execution(const kinora_pipeline& pipeline, const Run& run, const Settings& settings);
  ~Execution();
  // [owner-thread] Call it once. Throws Error.
  void run();

  // The calls of a stage's kinora_emit (emission.cpp).
  void emit(Task& task, Sample sample);
  void drop(Task& task, Sample sample, const char* rule, double score);
  void fail(Task& task, Sample sample, const char* reason);
  void hold(Task& task);
  void stored(Task& task, std::string_view key);
  void made_of(Task& task, std::span<const kinora_str> keys);

  // [any-thread]
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }
  int32_t cancelled() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Job {
    enum { pull, process, finish } what;
    StageState* stage = nullptr;
    Slot* slot = nullptr;
    std::optional<Item> in{};
    uint64_t reserve = 0;
  };
  // A task whose emission waits for room.
  struct Waiting {
    Task* task;
    const Weight* in;
    Weight* out;  // weight that leaves at the same time, or null
    Place next;
    const Weight* replaced;  // out, or the weight of the input, which leaves when the task ends
    bool granted = false;
    std::condition_variable go{};
  };
  using Tracks = std::vector<std::shared_ptr<Track>>;
  struct Origin {
    std::shared_ptr<Track> track;
    Place place;
  };

  // execution.cpp: the owner's thread, the pool, the outcomes. Functions without a Lock argument are called under it, unless
  // stated otherwise.
  void tell_ends(Lock& lock);
  void tell(Lock& lock, Track& track);
  void end(const std::shared_ptr<Track>& track, End end, Sample sample, Weight weight);
  void settle(std::shared_ptr<Track> track);
  void abort(int32_t code, const std::string& message);
  // A stage cannot process any sample (KINORA_STOP): starts nothing more; the run aborts when that stage's running tasks have ended.
  void refuse(const StageState& stage, const std::string& message);
  bool refused_is_told() const;
  void spawn();
  void work();
  void perform(Job& job);  // not under the lock

  // schedule.cpp: chooses the next task.
  void dispatch();
  bool start_one();
  enum class Answer { yes, no, wait };  // wait: it is this stage's turn, so nothing upstream starts before it
  Answer advance(StageState& stage, bool further);
  bool may_make(const StageState& stage, bool further) const;
  bool force_one();
  bool finish_what_is_large();
  bool let_go_of_held();
  uint64_t bytes_held(const StageState& stage);
  bool can_pull() const;
  void start_pull();
  void start_process(StageState& stage);
  void start_finish(StageState& stage);
  void start(Job job);
  void grant(Waiting& waiting);
  bool fits(const Waiting& waiting);
  bool bytes_left(uint64_t more) const;
  bool queues_left(const std::vector<StageState*>& to) const;
  Waiting* oldest_waiting(const StageState* stage);
  Answer tokens_left(const Tokens& need) const;
  Slot* free_slot(const StageState& stage) const;
  bool devices_left(const StageState& stage, const Slot* slot) const;
  void take(const StageState& stage, const Slot* slot);
  void give(const StageState& stage, const Slot* slot);
  bool upstream_finished(const StageState& stage) const;
  bool all_finished() const;

  // task.cpp: one job from start to end. Not under the lock, except complete_input, keep_back and fail.
  void perform_pull(uint64_t reserve);
  void perform_process(Job& job);
  void perform_alone(Job& job);
  void attempt(Job& job, Slot& slot);
  bool make_slot(Job& job);
  void lose_slot(Job& job, const Error& why);
  int32_t try_process(Task& task, std::string& message);
  int32_t try_until(Task& task, std::string& message);
  int32_t said(int32_t status, std::string& message) const;
  bool pause(double seconds);
  void complete(Task& task, int32_t status, const std::string& message, double seconds);
  void complete_input(Task& task, int32_t status, const std::string& message);
  void note_error_after(Task& task, const std::string& message);
  void keep_back(Task& task);
  void fail(const std::shared_ptr<Track>& track, const StageState& stage, int32_t status,
            const std::string& message, Sample sample, Weight weight);
  kinora_emit emit_table(Task& task);
  kinora_run stage_run(const StageState& stage, const Slot& slot);

  // finish.cpp: the end of a stage's input. Not under the lock, except fail_finish and end_left_over.
  void perform_finish(StageState& stage);
  bool finish_slot(StageState& stage, Slot& slot);
  void fail_finish(StageState& stage, Slot& slot, int32_t status, const std::string& message);
  void end_left_over(StageState& stage, Slot& slot, const std::string& why, int32_t status = KINORA_FAILED);

  // death.cpp: samples whose process died. Not under the lock, except the last two.
  bool bury(Task& task, const std::string& why);
  bool revive(Task& task, int64_t deaths, std::string& message);
  void try_alone(StageState& stage, Slot& slot, const std::string& why);
  void put_back(Task& task);

  // emission.cpp
  bool told_before(Task& task, std::string_view key);
  bool is_second(const Task& task, std::string_view key) const;
  bool refuse_key(Task& task, Sample& sample, const Tracks& of);
  void end_here(Task& task, Sample sample, const Tracks& of, End how);
  Weight* leaving(Task& task, std::string_view key, const kinora_sample* sample);
  const Weight* replaced(const Task& task, std::string_view key, const Weight* out) const;
  void make_room(Lock& lock, Waiting waiting);
  void account(const Waiting& waiting);
  void say_large(StageState& stage, uint64_t before, uint64_t after, const Weight* replaced);
  Origin origin(Task& task, const Sample& sample, const Tracks& of);
  void hand_on(const std::vector<StageState*>& to, Origin from, Sample sample, Weight weight,
               std::vector<Sample> copies);
  void enter(StageState& stage, const Place& place, uint64_t emitted);
  void leave(StageState& stage, const Place& place, uint64_t emitted);

  // parents.cpp: what a new sample was made of. The first two are not called under the lock.
  static bool is_input(const Task& task, const Sample& sample);
  static Tracks parents_of(Task& task, const Sample& sample);
  std::shared_ptr<Track> child_of(const Tracks& parents, std::string_view key);

  // figures.cpp; figures() not under the lock
  std::string figures(double seconds);
  std::string bound(const std::vector<double>& busy) const;
  const StageState& most_behind(const std::vector<double>& busy) const;

  const kinora_pipeline& pipeline_;
  const kinora_run& run_;
  const Settings settings_;
  std::mutex noise_mutex_;

  std::mutex mutex_;
  std::condition_variable ready_changed_, owner_wakes_, stop_changed_;
  std::vector<std::unique_ptr<StageState>> stages_;
  std::vector<StageState*> first_;  // stages that take the source
  std::optional<Advice> advice_;
  std::vector<std::thread> threads_;
  std::deque<Job> ready_;
  size_t idle_ = 0;    // threads without a job
  size_t active_ = 0;  // jobs started and not waiting for room
  std::deque<Waiting*> waiting_;
  std::deque<std::shared_ptr<Track>> ends_;  // outcomes to be reported
  bool telling_ = false;

  Tokens used_;
  std::vector<double> devices_;  // used part of each GPU
  Ledger ledger_;
  Ledger beside_;  // held inputs of stages in this process that ledger_ no longer counts
  uint64_t reserved_ = 0;  // bytes that running tasks are expected to add
  bool pulling_ = false, source_ended_ = false;
  uint64_t pulled_ = 0, largest_input_ = 0;
  std::vector<StageState::Figures> last_figures_;  // at the last report
  std::optional<Trace> trace_;
  double last_report_ = 0;

  std::atomic<bool> stopping_{false};
  bool quit_ = false;
  int32_t error_ = KINORA_OK;
  std::string error_message_;
  const StageState* refused_ = nullptr;  // the stage that returned KINORA_STOP; its message, and when
  std::string refusal_;
  std::chrono::steady_clock::time_point refused_since_;
};

}  // namespace kinora::local
