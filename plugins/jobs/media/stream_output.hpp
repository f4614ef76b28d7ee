// Where a growing video goes: a file, or standard output.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace kinora::core::inference {

// Each write has reached the system when it returns, so the bytes so far are there for other programs, also after this
// one is killed.
//
// [owner-thread] The program must ignore SIGPIPE, as kinora does.
class StreamOutput {
 public:
  // where: a file, which is created or emptied, or "-" for standard output, which must not be a terminal.
  // is_cancelled: asked ten times a second while a pipe's reader takes nothing; null: never. patience: for how long a
  // write waits for such a reader; 0: without an end. Throws Error.
  explicit StreamOutput(const std::string& where, std::function<bool()> is_cancelled = nullptr,
                        std::chrono::milliseconds patience = {});
  ~StreamOutput();
  StreamOutput(const StreamOutput&) = delete;
  StreamOutput& operator=(const StreamOutput&) = delete;

  // Throws Error(KINORA_ERROR_IO), Error(KINORA_ERROR_NO_MEMORY) for a full disk, or Error(KINORA_ERROR_CANCELLED).
  void write(std::span<const uint8_t> bytes);
  // A regular file, not a pipe or a device.
  bool is_file() const { return is_file_; }

 private:
  [[noreturn]] void fail(int error, const char* doing) const;
  void await_reader() const;

  std::string where_;
  std::function<bool()> is_cancelled_;
  const std::chrono::milliseconds patience_;
  bool is_standard_ = false, is_file_ = false;
  int fd_ = -1;
};

}  // namespace kinora::core::inference
