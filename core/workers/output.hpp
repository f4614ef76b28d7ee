// What a worker writes to stdout and stderr: into the log, so that a stage that died leaves what it said last.
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
  // For the worker; this process closes its own as soon as the worker has it.
  int descriptor() const { return write_.get(); }
  void close() { write_ = Descriptor(); }

  // Takes what there is, without waiting.
  void read();
  // Logs the last lines since the last time, kMostLines of them, and how many are left out. The last one need not be ended
  // if `all`.
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
