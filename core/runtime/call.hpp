// The run as a call into a component sees it, and the progress that the call shows.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "kinora/abi/run.h"

namespace kinora::core {

// The progress of a long job on stderr: a bar with rate and remaining time on a terminal (core/base/terminal.hpp),
// otherwise an occasional line. Ranks other than the first show nothing.
class Progress {
 public:
  // total 0: unknown. unit: what is counted, "steps" or "clips".
  Progress(std::string label, int64_t total, std::string unit);
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // [any-thread] note: a few words after the figures, such as "loss 0.123".
  void update(int64_t done, const std::string& note = "");
  // [any-thread] Sets the lines shown below the bar, in place of the note, on a terminal only.
  void table(std::vector<std::string> lines);
  // [any-thread] What is said in place of the rate and the remaining time by count.
  void pace(std::string);
  // Draws the last state and ends the line; further calls do nothing.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(bool last);
  std::string line() const;
  std::mutex mutex_;
  std::string label_, unit_, note_, pace_;
  std::vector<std::string> table_;
  int64_t total_, done_ = 0, first_ = -1;
  bool terminal_, finished_ = false, drawn_ = false;
  Clock::time_point start_ = Clock::now(), last_draw_{};
};

// State behind a kinora_run's functions; must outlive the kinora_run.
struct Call {
  uint64_t seed = 0;
  int64_t first_sample = 0;      // global number of the batch's first sample: keys the noise
  Progress* progress = nullptr;  // null: nothing is shown
  // Receives an intermediate result after `done` steps; the tensor is borrowed. Null: no previews.
  std::function<void(int64_t done, kinora_tensor preview)> preview = nullptr;
  int64_t chunk = 0;  // of a video that several calls continue: each draws other numbers by the same keys
};

// A run on the CPU with one thread and no folder. Stops when the run is cancelled. Noise needs libtorch,
// which is loaded on first use.
kinora_run run_of(Call&);

// A training step waits for this call. After the run was asked to stop, the call may continue for `patience`
// seconds, so that the step can end; then it is cancelled too.
struct NeededCall : Call {
  double patience = 5;
  // Nanoseconds of the steady clock at which the call noticed the request; 0: not yet. Reset it before each call.
  std::atomic<int64_t> asked_to_stop = 0;
};
kinora_run run_of(NeededCall&);

}  // namespace kinora::core
