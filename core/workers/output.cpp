#include "core/workers/output.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "core/base/log.hpp"
#include "core/base/utf8.hpp"

namespace kinora::core {

WorkerOutput::WorkerOutput(std::string name) : name_(std::move(name)) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error(KINORA_IO, fmt::format("a pipe for a worker: {}; raise the limit on open files (ulimit -n)",
                                       std::strerror(errno)));
  read_ = Descriptor(ends[0]);
  write_ = Descriptor(ends[1]);
  ::fcntl(read_.get(), F_SETFL, O_NONBLOCK);
}

// Reads only what is in the pipe now, so a process that writes without end cannot block it.
void WorkerOutput::read() {
  char text[4096];
  for (size_t all = 0; all < (size_t{1} << 20);) {
    const ssize_t n = ::read(read_.get(), text, sizeof text);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    all += static_cast<size_t>(n);
    for (ssize_t i = 0; i < n; ++i) take(text[i]);
  }
}

void WorkerOutput::take(char c) {
  if (c == '\n') return end_line();
  if (line_.size() < kLongestLine) line_ += c;
}

void WorkerOutput::end_line() {
  // The log must be valid text, and a long line may be cut within a character.
  lines_.push_back(valid_utf8(std::exchange(line_, {})));
  if (lines_.size() <= kMostLines) return;
  lines_.pop_front();
  ++left_out_;
}

void WorkerOutput::say(int32_t level, bool all) {
  if (all && !line_.empty()) end_line();
  if (left_out_ > 0) log_line(level, fmt::format("{}: its process wrote {} lines before these", name_, left_out_));
  for (const auto& line : lines_) log_line(level, fmt::format("{}: its process wrote: {}", name_, line));
  lines_.clear();
  left_out_ = 0;
}

}  // namespace kinora::core
