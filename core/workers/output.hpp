// Copies a worker's stdout and stderr to the log, so that the last words of a stage that died are kept.
#pragma once
#include <deque>
#include <string>

#include "core/workers/channel.hpp"

namespace kinora::core {

// [owner-thread]
class WorkerOutput {
 public:
  // Throws Error.
  explicit WorkerOutput(std::string name);
  // For the worker; this process must close its own copy once the worker has it.
  int descriptor() const { return write_.get(); }
  void close() { write_ = Descriptor(); }

  // Reads what is available, without waiting.
  void read();
  // Logs the last lines since the previous call, at most kMostLines, and how many are left out. With `all`, the last line
  // need not be complete.
  void say(int32_t level, bool all);

  static constexpr size_t kMostLines = 40, kLongestLine = 1000;

 private:
  void take(char c);
  void end_line();
  const std::string name_;
  Descriptor read_, write_;
  std::deque<std::string> lines_;
  std::string line_;
  size_t left_out_ = 0;
};

}  // namespace kinora::core
