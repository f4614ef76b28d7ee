// The interfaces that an engine implements for its runs: instances of stages, and the executor that makes and
// calls them. isolation.hpp has threads and processes of this machine; the run (runner.hpp) knows neither.
#pragma once
#include <functional>
#include <memory>

#include "kinora/abi/engine.h"
#include "kinora/error.hpp"

namespace kinora::engines {

struct Slot;
struct StageState;
struct Task;

// One instance of a stage, wherever it is. Its destructor stops it.
class Instance {
 public:
  virtual ~Instance() = default;
  // [without the run's lock] Begins the task's call. The task hears what the stage emits, and at the end
  // done(), one event at a time: during send() or later, from any thread. An instance that gives no sign of
  // life for too long ends itself: done() and ended() say so.
  virtual void send(Task& task) = 0;
  // Whether its death costs only the samples that it has, so that they can be tried again.
  virtual bool is_apart() const = 0;
  // It has died, and everything that it held is lost.
  virtual bool ended() const = 0;
  // It has ended together with its node, through no fault of its samples.
  virtual bool lost() const { return false; }
};

// A stage before its first sample.
struct FirstInstance {
  kinora_resources needs;
  bool apart = false;     // its instances are in processes of their own
  bool batches = false;   // it has process_batch(), and its instances can be called so
  bool finishes = false;  // it has finish()
  std::unique_ptr<Instance> instance;
  double starting = 0;  // seconds that making the instance took
  bool here = false;    // its only instance is beside the engine, and takes nothing of the nodes
};

// Where instances are made and work is done.
class Executor {
 public:
  // Receives the new instance, or null and the reason.
  using Started = std::function<void(std::unique_ptr<Instance>, const Error*)>;

  virtual ~Executor() = default;
  // [owner-thread] Makes the stage's first instance, which shows whether one can be made at all. Throws Error
  // that names the stage.
  virtual FirstInstance first(const kinora_stage_spec& spec) = 0;
  // [without the run's lock] Makes an instance for the slot, on its node, and calls `started` once: during start() or
  // later, from any thread.
  virtual void start(const StageState& stage, const Slot& slot, Started started) = 0;
  // [under the run's lock] Calls `work` once, later, without the lock. here: the calling thread is free for
  // it in a moment. Throws Error if nothing can do it.
  virtual void post(std::function<void()> work, bool here) = 0;
  // [owner-thread] Returns after wake(), or after so many seconds of the run's clock.
  virtual void wait(double seconds) = 0;
  // [any-thread] Ends the wait, or the next one if there is none now.
  virtual void wake() = 0;
};

}  // namespace kinora::engines
