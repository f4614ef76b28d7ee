// One call of a stage: process() of one input, process_batch() of several, or finish(). It is the state
// behind the kinora_emit that the call receives.
#pragma once
#include <span>
#include <unordered_set>

#include "plugins/engines/local/runner.hpp"

namespace kinora::local {

struct Task {
  Runner& runner;
  StageState& stage;
  Slot& slot;
  Holding& held;  // inputs that the call may end: those that the instance holds, or those of the batch
  std::optional<Item> in;  // input of process()
  std::string key;         // key of `in`, which may have been passed on
  Place place;             // of new samples, unless a batch makes them (first_of)
  uint64_t emitted = 0;
  uint64_t reserve = 0;
  Tracks batch{};        // inputs of process_batch()
  bool ended = false;    // the input was emitted, dropped or stored
  bool holds = false;    // hold() was called
  bool touched = false;  // something was emitted, dropped or held: a retry would repeat it
  // The keys that were emitted for the input, in order, if a second attempt may follow: it passes on only
  // what is new. An attempt after the death of a process must emit the same keys in the same order; one after
  // a failed batch may emit others.
  std::vector<std::string> told{};
  std::unordered_set<std::string> keys{};  // all keys emitted here: none may come twice
  Tracks named{};                          // the parents of the next new sample, as made_of() names them
  size_t replay = 0;  // number of `told` keys that an attempt after a death has to repeat
  bool died = false;
  bool again =
      false;  // its process died while it held others: the input returns to the queue, to be tried alone
  double waited = 0;  // seconds without a core

  kinora_emit table();
  // The calls of the stage.
  void emit(Sample sample);
  void drop(Sample sample, const char* rule, double score);
  void fail(Sample sample, const char* reason);
  void hold();
  void stored(std::string_view key);
  void made_of(std::span<const kinora_str> keys);

 private:
  bool told_before(std::string_view key);
  bool is_input(const Sample& sample) const;
  Tracks parents_of(const Sample& sample);
  bool refuse_key(Sample& sample, const Tracks& of);
  void end_here(Sample sample, const Tracks& of, End how);
  void make_room(std::unique_lock<std::mutex>& lock, Waiting waiting);
  Weight* leaving(const Sample& sample);
  const Weight* replaced(const Sample& sample, const Weight* out) const;
  Origin origin(const Sample& sample, const Tracks& of);
  Held take_held(Holding::iterator at);
  Held* first_of(const Tracks& parents);
  void note_told(const std::string& key, const Tracks& of);
};

}  // namespace kinora::local
