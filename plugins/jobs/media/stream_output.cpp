#include "plugins/jobs/media/stream_output.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <fmt/format.h>
#include <sys/stat.h>

#include "kinora/error.hpp"

namespace kinora::core::inference {

StreamOutput::StreamOutput(const std::string& where, std::function<bool()> is_cancelled,
                           std::chrono::milliseconds patience)
    : where_(where), is_cancelled_(std::move(is_cancelled)), patience_(patience), is_standard_(where == "-") {
  if (is_standard_) {
    where_ = "standard output";
    if (isatty(STDOUT_FILENO))
      throw Error(
          KINORA_ERROR_INVALID,
          "standard output is a terminal; connect it to a player or a file, or name a file instead of -");
    fd_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  } else {
    fd_ = open(where.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  }
  struct stat about {};
  if (fd_ < 0 || fstat(fd_, &about) != 0) {
    const int error = errno;
    if (fd_ >= 0) close(fd_);
    fail(error, "opening");
  }
  is_file_ = S_ISREG(about.st_mode);
}

StreamOutput::~StreamOutput() { close(fd_); }

void StreamOutput::fail(int error, const char* doing) const {
  if (error == EPIPE) throw Error(KINORA_ERROR_IO, "the reader of " + where_ + " is gone");
  const bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  throw Error(is_full ? KINORA_ERROR_NO_MEMORY : KINORA_ERROR_IO,
              fmt::format("{}: {} failed: {}{}", where_, doing, std::strerror(error),
                          is_full ? "; free some space and run again" : ""));
}

// Returns when the reader takes at least PIPE_BUF bytes, or is gone.
void StreamOutput::await_reader() const {
  constexpr int kMilliseconds = 100;
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    pollfd ready{fd_, POLLOUT, 0};
    const int n = poll(&ready, 1, kMilliseconds);
    if (n > 0) return;
    if (n < 0 && errno != EINTR) fail(errno, "waiting for its reader");
    if (is_cancelled_ && is_cancelled_()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
    if (patience_.count() > 0 && std::chrono::steady_clock::now() - start >= patience_)
      throw Error(KINORA_ERROR_IO, fmt::format("the reader of {} has taken nothing for {:.3g} s", where_,
                                               std::chrono::duration<double>(patience_).count()));
  }
}

void StreamOutput::write(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    if (!is_file_) await_reader();
    const ssize_t n =
        ::write(fd_, bytes.data(), is_file_ ? bytes.size() : std::min<size_t>(bytes.size(), PIPE_BUF));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) fail(errno, "writing");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

}  // namespace kinora::core::inference
