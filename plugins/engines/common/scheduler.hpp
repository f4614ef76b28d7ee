// Chooses what runs next.
//
// Whenever a core is free, the most downstream task that can run gets it. So a slow stage takes as many cores
// as it needs, and samples that are nearly done, and their memory, go first. Cores are not assigned to
// stages: measured on 8 cores (engines/local/dispatch_test.cpp), sharing takes 0.97 of the time of the balancer's
// allocation where that divides evenly, 0.94 where it does not, 0.61 where times drift, and is no slower than
// reallocation at no cost. The balancer decides what lasts (advice.hpp): how many instances, that is worker
// processes or copies of a model, a stage's share of the work needs, and on which nodes they are (placement.hpp).
// A stage works elsewhere only if a core would be idle.
//
// A task that waits for room releases its core while it waits. When nothing runs and nothing fits, the oldest
// sample continues all the same: hence no deadlock, and a single sample that is larger than the bound passes
// alone. Until it has passed, samples that are nearly done go first: of emissions that are larger than fits,
// one at a time exceeds the bound.
//
// Guarded by the run's mutex (runner.hpp).
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "plugins/engines/common/lineage.hpp"
#include "plugins/engines/common/stage_state.hpp"

namespace kinora::engines {

// The next piece of work.
struct Job {
  enum { pull, process, finish } what;
  StageState* stage = nullptr;
  Slot* slot = nullptr;
  std::vector<Item> in{};  // process: one, or several for process_batch()
  Reserve reserve{};
};

// An emission that may have to wait for room.
struct Waiting {
  StageState* stage;
  Slot* slot;
  const Weight* in;
  Weight* out;  // weight that leaves at the same time, or null
  Place next;
  const Weight* replaced;  // out, or the weight of the input, which leaves when the task ends
  // Called once if it waits: it has room, or the scheduler was closed.
  std::function<void(bool granted)> go;
};

// Some of the nodes.
class NodeSet {
 public:
  void set(size_t node, bool is_in);
  const std::vector<size_t>& nodes() const { return nodes_; }  // in any order

 private:
  std::vector<size_t> nodes_;
  std::vector<std::optional<size_t>> at_;  // of each node: its index in nodes_
};

// The source of the pipeline.
struct Source {
  std::vector<StageState*> to;
  bool pulling = false, ended = false;
  uint64_t pulled = 0;   // inputs
  uint64_t largest = 0;  // bytes of the largest input
};

// A sample's record and its position in the order.
struct Origin {
  std::shared_ptr<Track> track;
  Place place;
  size_t after = 0;    // 0: it comes from the source; n: from stage n - 1
  bool keeps = false;  // the sample is kept, so that others can be made of it again
};

class Scheduler {
 public:
  using Stages = std::vector<std::unique_ptr<StageState>>;
  // queue: samples that may wait for one stage, for each node.
  Scheduler(Stages& stages, const std::vector<Tokens>& nodes, uint64_t queue, Ledger& ledger,
            Lineage& lineage);

  // Starts all jobs that can run now, and returns how many; takes them from ready(). Call it after every
  // change.
  size_t dispatch();
  std::deque<Job>& ready() { return ready_; }
  void ended(const Job& job);
  // The stage cannot have the job's slot any more.
  void lose_slot(Job& job);
  // A node has come: stages whose number of workers is the engine's may have more.
  void add_node(const Tokens& has);
  Tokens total() const { return machine_.total(); }
  const Machine& machine() const { return machine_; }
  // The node has so many cores less than it seemed.
  void correct_node(size_t node, double cores);
  // The node has gone; its free slots are on others from now on.
  void lose_node(size_t node);
  // A slot whose node has gone is on another one, if there is one. taken: a job has what it needs for it.
  void move(StageState& stage, Slot& slot, bool taken);
  bool has_lost_node(const Slot& slot) const { return machine_.has_lost(slot.node); }
  // Nothing starts any more; jobs that run continue, and with wake = true emissions that wait for room end.
  void close(bool wake);

  bool all_finished() const;
  // Nothing runs, and nothing can start although not all has finished: a defect.
  bool is_stuck() const { return is_stuck_; }
  bool is_at_rest() const { return active_ == 0 && waiting_ == 0; }
  size_t active() const { return active_; }
  bool waits_for_memory() const {
    return waiting_ > 0 || (!source.ended && !ledger_.has_room(0, source.largest));
  }
  const Stages& stages() const { return stages_; }

  // True: the emission was counted in the ledger at once. False: its task has given back its resources, and
  // has them again when waiting.go() is called.
  bool enter(Waiting& waiting);

  // Puts a sample into the queue of each stage that takes it; every one but the first gets a copy, a separate
  // sample. None takes it: it leaves the pipeline.
  void hand_on(const std::vector<StageState*>& to, Origin from, Sample sample, Weight weight,
               std::vector<Sample> copies);
  // An ordered stage downstream expects, or no longer expects, emission number `emitted` at this place.
  static void expect(StageState& stage, const Place& place, uint64_t emitted);
  static void expect_no_more(StageState& stage, const Place& place, uint64_t emitted);
  // Returns the sample to its stage's queue.
  static void put_back(StageState& stage, Item item);

  Source source;

 private:
  using Answer = Machine::Answer;
  struct Earlier {
    bool operator()(const Waiting* a, const Waiting* b) const { return a->next < b->next; }
  };
  bool start_one();
  Answer ask(size_t node, const StageState& stage);
  Answer advance(StageState& stage, bool further);
  Answer advance_again(StageState& stage);
  bool may_make(const StageState& stage, bool further) const;
  size_t together(const StageState& stage) const;
  bool has_full_batch(const StageState& stage) const;
  bool force_one();
  bool finish_what_is_large();
  bool let_go_of_held();
  uint64_t bytes_held(const StageState& stage);
  bool can_pull() const;
  bool remakes() const;
  void start_pull();
  void start_process(StageState& stage, Slot* slot);
  void force_process(StageState& stage);
  void start_finish(StageState& stage);
  void start(Job job);
  void grant(Waiting& waiting);
  void go_on(Waiting& waiting);
  void account(const Waiting& waiting);
  void say_large(StageState& stage, size_t place, uint64_t before, uint64_t after, const Weight* replaced);
  bool fits(const Waiting& waiting);
  uint64_t longest_queue(const StageState& stage) const;
  bool queues_left(const std::vector<StageState*>& to) const;
  Waiting* oldest_waiting(const StageState& stage) const;
  Waiting* oldest_waiting() const;
  enum class Agreement { elsewhere, beside, planned };
  Agreement agreement(const StageState& stage, size_t node) const;
  std::span<const size_t> nodes_for(const StageState& stage) const;
  Slot* free_slot(const StageState& stage, bool anywhere);
  Slot* free_slot(const StageState& stage, size_t node, bool anywhere) const;
  size_t place_of(const StageState& stage, const Slot& slot) const;
  Weight copies_of(const StageState& stage, const Slot& slot) const;
  bool has_room_for(const StageState& stage, const Slot& slot);
  bool is_full(const StageState& stage) const;
  void end_copies(Slot& slot);
  void take(const StageState& stage, const Slot* slot);
  void give(const StageState& stage, const Slot* slot);
  void look_at(size_t node);
  bool may_finish(const StageState& stage) const;
  bool upstream_finished(const StageState& stage) const;

  Stages& stages_;
  const uint64_t queue_;
  Ledger& ledger_;
  Lineage& lineage_;
  Machine machine_;
  std::vector<std::vector<int64_t>> at_work_;  // [stage][node]: tasks that have what they need
  std::deque<Job> ready_;
  // [stage]: where a task of it can start, or waits for cores of which some other stage could take some
  std::vector<NodeSet> open_;
  double least_cores_ = 0;                               // that a stage needs
  std::vector<std::multiset<Waiting*, Earlier>> waits_;  // [stage]
  size_t waiting_ = 0;                                   // all of them
  size_t active_ = 0;                                    // jobs started and not waiting for room
  bool closed_ = false, is_stuck_ = false;
};

}  // namespace kinora::engines
