// Where log lines go: stderr, and the files of the runs that are under way.
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
// [main thread] Another level from here on; refused like start_log's.
Status set_log_level(std::string_view level);
// Whether it is a level, or how it is misspelt.
Status check_log_level(std::string_view level);
// [any-thread] The present level.
std::string log_level();

// [main thread] Only warnings and errors go to stderr from here on; files still get every line.
void quiet_terminal();

// [any-thread] Writes one line to the open log files alone, whatever the level. Returns false if there is none.
bool log_to_files(std::string_view message);

// [any-thread] Appends the same lines, with their date, to a file too, until the object dies.
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

// [main thread, before anybody logs] Lines of the level that is set go there from here on, and nowhere else: a worker's
// go to the process that started it.
void divert_log(std::function<void(int32_t level, std::string_view message)> to);

// [any-thread] level: KINORA_LOG_*. Control characters in `message` are shown escaped, so that hostile input
// cannot forge lines or steer a terminal.
void log_line(int32_t level, std::string_view message);

template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(KINORA_LOG_INFO, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  log_line(KINORA_LOG_WARN, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(KINORA_LOG_ERROR, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace kinora::core
