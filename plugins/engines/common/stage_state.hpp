// One running stage of the pipeline: its needs, its instances, its queue, its figures, and how messages name
// it.
#pragma once
#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plugins/engines/common/instance.hpp"
#include "plugins/engines/common/lineage.hpp"
#include "plugins/engines/common/machine.hpp"

namespace kinora::engines {

// A slot for one instance of a stage; the instance is made on first use.
struct Slot {
  size_t number = 0;
  std::unique_ptr<Instance> instance{};
  std::vector<size_t> devices{};  // GPUs of the node that the instance is on
  Holding held{};
  bool finished = false;  // finish() was called for its instance
  size_t node = 0;
  Weight copies{};   // bytes that its call has on the node although they belong elsewhere, in the ledger
  int64_t turn = 0;  // in FreeSlots; 0: it is not free
};

// The slots of a stage that no task has. The last is taken first: those without an instance come before the others.
class FreeSlots {
 public:
  void put(Slot& slot);
  void take(Slot& slot);
  // The slot's node is another one, whether it is free or not.
  void move(Slot& slot, size_t node);
  bool empty() const { return all_.empty(); }
  Slot& last() const { return *all_.rbegin()->second; }
  const std::map<int64_t, Slot*>& all() const { return all_; }  // by turn
  // Those of a node, in the same order.
  std::span<Slot* const> on(size_t node) const;
  size_t made() const { return made_; }  // those with an instance

 private:
  void put_on_node(Slot& slot);
  void take_from_node(Slot& slot);
  std::map<int64_t, Slot*> all_;
  std::vector<std::vector<Slot*>> on_;
  int64_t first_ = 0, last_ = 0;
  size_t made_ = 0;
};

struct StageState {
  const kinora_stage_spec* spec = nullptr;
  size_t index = 0;
  std::vector<StageState*> to;       // stages that take its output
  std::vector<StageState*> ordered;  // ordered stages downstream
  std::string branch;                // names the copies of samples that this stage takes
  Tokens need;
  bool in_order = false;
  size_t batch = 1;            // most inputs of one call
  bool may_start_anew = true;  // an instance keeps nothing from sample to sample except held inputs
  bool counts_held = true;     // held inputs count as samples; otherwise as memory of the stage
  bool let_go = false;         // it held more than fits, so its held inputs no longer count
  bool said_large = false;     // the warning about emissions larger than the bound was logged
  bool said_batch = false;     // the warning about a failed batch was logged
  bool isolated = false;       // its instances are in processes of their own
  bool finishes = false;       // it has finish()
  bool here = false;           // its instance is beside the engine, and takes nothing of the nodes
  bool holds = false;          // it has held an input
  double share = 0;            // share of each of an instance's devices

  std::vector<std::unique_ptr<Slot>> slots;
  FreeSlots free;
  std::map<Place, Item> queue;
  std::deque<Item> remakes;  // only make lost samples again; taken before the queue, whatever the memory
  size_t expects = 0;        // lost samples that return to its queue
  Frontier ahead;            // for an ordered stage: what it waits for

  std::atomic<uint32_t> instances{0};
  size_t wanted = SIZE_MAX;        // instances that the stage's share of the work needs (advice.hpp)
  std::vector<int64_t> planned{};  // workers on each node (placement.hpp); empty: anywhere
  double starting = 0;             // seconds that making the last instance took
  size_t lost = 0;                 // slots whose instance could not be made
  uint32_t busy = 0;               // tasks that occupy a slot, also while they wait for room
  bool finishing = false, finished = false;
  bool closed = false;  // finish() was called: its instances take nothing more
  uint64_t finish_emitted = 0;
  uint64_t largest = 0;  // bytes that its largest emission added

  struct Figures {
    uint64_t in = 0, out = 0, dropped = 0, failed = 0, retried = 0;
    uint64_t died = 0;    // processes that died
    uint64_t redone = 0;  // of them, those that were lost with their node, so that their call is made again
    uint64_t errors_after = 0;    // errors for samples that had been emitted or dropped
    uint64_t without_result = 0;  // inputs that it neither ended, held nor made anything of
    double seconds = 0;           // working time, all workers together
    double squares = 0;           // sum of the squares of each sample's seconds
  } figures;

  // Key of the copy that this stage takes if other stages take the sample too, so that both can be stored.
  std::string branch_key(std::string_view key) const { return std::string(key) + "@" + branch; }
  // Whether what it makes is needed in this process: by the pipeline's owner, or by a stage.
  bool comes_home() const {
    return to.empty() || std::any_of(to.begin(), to.end(), [](const StageState* next) { return next->here; });
  }
  // Whether the oldest sample of the queue may be taken now.
  bool runnable() const {
    if (free.empty() || !remakes.empty()) return !free.empty();
    return !queue.empty() && (!in_order || ahead.passed(queue.begin()->first));
  }
  bool has_next() const { return !queue.empty() || !remakes.empty(); }
  const Item& next() const { return remakes.empty() ? queue.begin()->second : remakes.front(); }
  // The place of what it takes next.
  Place first() const { return remakes.empty() ? queue.begin()->first : Place{}; }
  bool has_more() const { return has_next() || expects > 0; }
  // Number of instances that exist or are being made.
  size_t have() const { return slots.size() - lost - (free.all().size() - free.made()); }
  // Seconds of work queued per instance; nothing while the time of a sample is unknown.
  std::optional<double> waiting() const {
    if (figures.in == 0) return std::nullopt;
    const double each = figures.seconds / static_cast<double>(figures.in);
    return each * static_cast<double>(queue.size()) / static_cast<double>(std::max<size_t>(1, have()));
  }
  // Position of samples that finish() emits: after all others, in the order of the stages.
  Place finish_place() const { return {UINT64_MAX, index}; }
};

constexpr size_t kMostWorkers = 256;  // per stage and node

// Checks the graph, makes each stage's first instance, on the first node, and reads its resources. Throws Error.
std::vector<std::unique_ptr<StageState>> set_up_stages(const kinora_pipeline& pipeline,
                                                       const std::vector<Tokens>& nodes, Executor& executor);
// Slots on one more node, for a stage whose number of workers is the engine's: first those whose node has gone.
void extend(StageState& stage, size_t node, const Tokens& has, const Machine& machine);
// Destroys every instance. No task may be running.
void tear_down(std::vector<std::unique_ptr<StageState>>& stages);

constexpr const char* kNeverTold = "held by the stage and never ended; fix its finish()";
constexpr const char* kNobodyAsked = "returned KINORA_ERROR_CANCELLED although the run was not asked to stop";

// A message about a stage.
inline std::string of_stage(const StageState& stage, const std::string& message) {
  return "stage '" + std::string(stage.spec->name) + "': " + message;
}

// The host's message of the last error on this thread, or the status if it has none.
inline std::string last_message(int32_t status) {
  const std::string text(view(host()->last_error(host())));
  return text.empty() ? "failed with status " + std::to_string(status) : text;
}

}  // namespace kinora::engines
