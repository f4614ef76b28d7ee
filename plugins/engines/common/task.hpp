// One call of a stage: process() of one input, process_batch() of several, or finish(). The instance that makes
// the call passes on here what the stage emits.
#pragma once
#include <span>
#include <unordered_set>

#include "plugins/engines/common/runner.hpp"

namespace kinora::engines {

struct Task {
  enum class Call { process, process_batch, finish };

  Task(Runner& by, Job what, Slot& in_slot)
      : runner(by), job(std::move(what)), stage(*job.stage), slot(&in_slot), held(&in_slot.held) {}

  Runner& runner;
  Job job;
  StageState& stage;
  Slot* slot;     // of the instance that is called
  Holding* held;  // inputs that the call may end: those that the instance holds, or those of the batch
  Call call = Call::process;
  kinora_run run{};            // of the call
  std::optional<Item> in{};    // input of process()
  std::vector<Sample> inputs;  // of process_batch()
  std::string key{};           // key of `in`, which may have been passed on
  Place place{};               // of new samples, unless a batch makes them (first_of)
  uint64_t emitted = 0;
  Reserve reserve{};
  Tracks batch{};                      // inputs of process_batch()
  Holding together{};                  // the same
  std::unique_ptr<Instance> buried{};  // it died of the batch
  bool ended = false;                  // the input was emitted, dropped or stored
  bool holds = false;                  // hold() was called
  bool touched = false;                // something was emitted, dropped or held: a retry would repeat it
  // The keys that were emitted for the input, in order, if a second attempt may follow: it passes on only
  // what is new. An attempt after the death of a process must emit the same keys in the same order; one after
  // a failed batch may emit others.
  std::vector<std::string> told{};
  std::unordered_set<std::string> keys{};  // all keys emitted here: none may come twice
  Tracks named{};                          // the parents of the next new sample, as made_of() names them
  size_t replay = 0;  // number of `told` keys that an attempt after a death has to repeat
  bool died = false;
  bool lost = false;   // ... with its node
  bool gone = false;   // the bytes of its input are lost
  bool again = false;  // its process died while it held others: the input returns to the queue, to be tried
                       // alone
  int64_t deaths = 0, losses = 0, retries = 0;
  double backoff = 0;  // seconds before the next retry
  Time start{};
  double waited = 0;  // seconds without a core

  // The functions of kinora_emit (abi/stage.h), one at a time, without the run's lock. They throw Error.
  //
  // emit() returns false if the sample waits for room. The stage continues when the instance's `room` is called,
  // once and under the lock, maybe before emit() returns. granted: the sample was passed on; otherwise the run
  // ends.
  bool emit(Sample sample);
  std::function<void(bool granted)> room{};
  void drop(Sample sample, const char* rule, double score);
  void fail(Sample sample, const char* reason);
  void hold();
  void stored(std::string_view key);
  void made_of(std::span<const kinora_str> keys);
  // The call is over; the task may no longer exist afterwards. message: of an error.
  void done(int32_t status, std::string message) { runner.done(*this, status, std::move(message)); }

  // Whether it only makes lost samples again.
  bool remakes() const { return in && in->remake; }
  // For the runner. The call is made by an instance that receives nothing else.
  void use_alone(std::unique_ptr<Instance> instance);
  // [without the lock] Lets go of samples, and of an instance of its own.
  void let_go();

 private:
  void emit_again(Sample sample);
  bool told_before(std::string_view key);
  bool is_input(const Sample& sample) const;
  Tracks parents_of(const Sample& sample);
  bool refuse_key(Sample& sample, const Tracks& of);
  void end_here(Sample sample, const Tracks& of, End how);
  void pass_on();
  bool is_made_once(const Track& track) const;
  void has_room(bool granted);
  Weight* leaving(const Sample& sample);
  const Weight* replaced(const Sample& sample, const Weight* out) const;
  Origin origin(const Sample& sample, const Tracks& of);
  Held take_held(Holding::iterator at);
  Held* first_of(const Tracks& parents);
  void note_told(const std::string& key, const Tracks& of);

  // The sample of emit() that waits, or is passed on just now.
  struct Emission {
    Sample sample;
    Weight weight;
    std::vector<Sample> copies;
    Tracks of;
  };
  std::optional<Emission> emission_{};
  Waiting waiting_{};
  Time waits_since_{};
  std::optional<Slot> own_{};
};

}  // namespace kinora::engines
