// A Chrome trace of the workers' activity over time: open trace.json in chrome://tracing or ui.perfetto.dev.
// Format: "Trace Event Format", JSON object with traceEvents; X: a span, C: counters, M: names of lanes.
#pragma once
#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "kinora/io.hpp"

namespace kinora::local {

class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  // The file is written while it grows, and gets its name in close(). Throws Error.
  explicit Trace(const std::string& uri);

  // [any-thread] A stage's work on one sample, by the worker of this number. waited: seconds of it without a core,
  // because the next stage was full.
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

}  // namespace kinora::local
