// Log output: to stderr, and to the files of the current runs.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/status.hpp"

namespace kinora::core {

// [main thread, once] Lines of `level` (trace, debug, info, warn, error, off) and above go to stderr as
// "12:34:56 warning text".
Status start_log(std::string_view level);
// [main thread] Changes the level; rejects the same levels as start_log().
Status set_log_level(std::string_view level);
// Whether it is a level, or how it is misspelt.
Status check_log_level(std::string_view level);
// [any-thread] The current level.
std::string log_level();

// [main thread] Restricts stderr to warnings and errors; files still get every line.
void quiet_terminal();

// [any-thread] Writes one line only to the open log files, whatever the level. Returns the path of the newest;
// "" if there is none.
std::string log_to_files(std::string_view message);

// [any-thread] From now on the open files get no lines any more.
void end_log_files();

// [any-thread] Also appends the same lines, with their date, to a file, during the lifetime of the object.
class LogFile {
 public:
  static Result<LogFile> open(const std::filesystem::path& path);
  LogFile(LogFile&&) noexcept = default;
  LogFile& operator=(LogFile&& other) noexcept;
  ~LogFile();

 private:
  explicit LogFile(std::shared_ptr<void> sink) : sink_(std::move(sink)) {}
  void close();
  std::shared_ptr<void> sink_;
};

// [main thread, before any logging] Sends lines of the current level to this function instead of stderr: a
// worker's lines go to the process that started it, an embedding program shows its own. Files still get them.
// Null: to stderr again.
void divert_log(std::function<void(int32_t level, std::string_view message)> to);

// [any-thread] level: KINORA_LOG_*. Control characters in `message` are escaped, so that hostile input cannot
// forge lines or control a terminal.
void log_line(int32_t level, std::string_view message);

template <class... Args>
inline void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(KINORA_LOG_INFO, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
inline void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  log_line(KINORA_LOG_WARN, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
inline void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(KINORA_LOG_ERROR, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace kinora::core
