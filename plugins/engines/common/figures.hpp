// The figures that a run shows: its live figures as JSON (abi/engine.h), and a trace of its workers.
#pragma once
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kinora/io.hpp"
#include "plugins/engines/common/advice.hpp"
#include "plugins/engines/common/clock.hpp"
#include "plugins/engines/common/scheduler.hpp"

namespace kinora::engines {

// A Chrome trace of the workers' activity over time: open trace.json in chrome://tracing or ui.perfetto.dev.
// Format: "Trace Event Format", JSON object with traceEvents; X: a span, C: counters, M: names of lanes.
class Trace {
 public:
  // The file is written while it grows, and gets its name in close(). Throws Error.
  Trace(const std::string& uri, Clock now);

  // [any-thread] A stage's work on one sample, by the worker of this number. waited: seconds of it without a
  // core, because the next stage was full.
  void span(size_t stage, const char* name, size_t worker, std::string_view key, Time begin, double waited,
            const char* result);
  // [any-thread] Current number of samples that wait for a stage, and of busy workers.
  void counter(const char* stage, uint64_t queue, uint32_t busy, uint64_t bytes);
  // Throws Error.
  void close();

 private:
  void add(const std::string& event);
  double microseconds(Time t) const { return 1e6 * seconds_between(begin_, t); }
  std::mutex mutex_;
  std::optional<Writer> out_;
  std::string buffer_;
  std::set<std::pair<size_t, size_t>> named_;
  const Clock now_;
  const Time begin_ = now_();
  bool first_ = true;
};

// The live figures. Guarded by the run's mutex (runner.hpp).
class Figures {
 public:
  Figures(const Scheduler& scheduler, const Ledger& ledger)
      : scheduler_(scheduler), ledger_(ledger), figures_(scheduler.stages().size()) {}
  // At `seconds` since the run began. trace: may be null; receives the counters.
  std::string at(double seconds, Advice& advice, Trace* trace);

 private:
  nlohmann::json nodes() const;
  std::string bound(const std::vector<double>& busy, const Advice& advice) const;
  const StageState& most_behind(const std::vector<double>& busy) const;

  const Scheduler& scheduler_;
  const Ledger& ledger_;
  std::vector<StageState::Figures> figures_;  // at the last call
  double last_ = 0;                           // seconds of the last call
};

}  // namespace kinora::engines
