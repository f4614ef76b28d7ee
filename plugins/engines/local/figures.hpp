// What a run shows of itself: its live figures as JSON (abi/engine.h), and a trace of its workers.
#pragma once
#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kinora/io.hpp"
#include "plugins/engines/local/advice.hpp"
#include "plugins/engines/local/scheduler.hpp"

namespace kinora::local {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A Chrome trace of the workers' activity over time: open trace.json in chrome://tracing or ui.perfetto.dev.
// Format: "Trace Event Format", JSON object with traceEvents; X: a span, C: counters, M: names of lanes.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  // The file is written while it grows, and gets its name in close(). Throws Error.
  explicit Trace(const std::string& uri);

  // [any-thread] A stage's work on one sample, by the worker of this number. waited: seconds of it without a
  // core, because the next stage was full.
  void span(size_t stage, const char* name, size_t worker, std::string_view key, Clock::time_point begin,
            double waited, const char* result);
  // [any-thread] Current number of samples that wait for a stage, and of busy workers.
  void counter(const char* stage, uint64_t queue, uint32_t busy, uint64_t bytes);
  // Throws Error.
  void close();

 private:
  void add(const std::string& event);
  double microseconds(Clock::time_point t) const {
    return std::chrono::duration<double, std::micro>(t - begin_).count();
  }
  std::mutex mutex_;
  std::optional<Writer> out_;
  std::string buffer_;
  std::set<std::pair<size_t, size_t>> named_;
  Clock::time_point begin_ = Clock::now();
  bool first_ = true;
};

// The live figures. Guarded by the run's mutex (runner.hpp).
class Figures {
 public:
  Figures(const Scheduler& scheduler, const Ledger& ledger, double cores)
      : scheduler_(scheduler), ledger_(ledger), cores_(cores), figures_(scheduler.stages().size()) {}
  // At `seconds` since the run began. trace: may be null; receives the counters.
  std::string at(double seconds, Advice& advice, Trace* trace);

 private:
  std::string bound(const std::vector<double>& busy, const Advice& advice) const;
  const StageState& most_behind(const std::vector<double>& busy) const;

  const Scheduler& scheduler_;
  const Ledger& ledger_;
  const double cores_;
  std::vector<StageState::Figures> figures_;  // at the last call
  double last_ = 0;                           // seconds of the last call
};

}  // namespace kinora::local
