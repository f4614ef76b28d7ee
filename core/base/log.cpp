#include "core/base/log.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "core/base/printable.hpp"
#include "core/base/suggest.hpp"
#include "core/base/terminal.hpp"

namespace kinora::core {
namespace {

// All log lines pass through here; its list of sinks may change while other threads log.
std::shared_ptr<spdlog::sinks::dist_sink_mt> outputs() {
  static const auto sink = std::make_shared<spdlog::sinks::dist_sink_mt>();
  return sink;
}

std::atomic<bool> started = false;

// Never destroyed: threads may log until the very end of the process.
std::function<void(int32_t, std::string_view)>& diverted() {
  static auto* to = new std::function<void(int32_t, std::string_view)>;
  return *to;
}

spdlog::level::level_enum spdlog_level(int32_t level) {
  switch (level) {
    case KINORA_LOG_TRACE:
      return spdlog::level::trace;
    case KINORA_LOG_DEBUG:
      return spdlog::level::debug;
    case KINORA_LOG_INFO:
      return spdlog::level::info;
    case KINORA_LOG_WARN:
      return spdlog::level::warn;
    default:
      return spdlog::level::err;
  }
}

std::string one_line(std::string_view message) {
  std::string out = printable(message);
  for (size_t at = 0; (at = out.find('\n', at)) != out.npos; at += 2) out.replace(at, 1, "\\n");
  return out;
}

// Returns the path of the last file; empty if there is none.
std::string to_files(spdlog::level::level_enum level, std::string_view message) {
  const auto& sinks = outputs()->sinks();
  const std::string line = one_line(message);
  std::string path;
  for (size_t i = 1; i < sinks.size(); ++i) {
    sinks[i]->log({"kinora", level, line});
    if (const auto* file = dynamic_cast<const spdlog::sinks::basic_file_sink_mt*>(sinks[i].get()))
      path = file->filename();
  }
  return path;
}

// A full disk: reported once, and logging continues to the other sinks.
void on_log_error(const std::string& what) {
  static std::atomic<bool> said = false;
  if (!said.exchange(true))
    std::fprintf(stderr, "kinora: a log is missing lines: %s; free space on its disk\n", what.c_str());
}

}  // namespace

Status check_log_level(std::string_view level) {
  static const std::vector<std::string> levels = {"trace", "debug", "info", "warn", "error", "off"};
  if (std::find(levels.begin(), levels.end(), level) != levels.end()) return {};
  return fail(KINORA_ERROR_INVALID, "unknown log level '{}'{}", level,
              did_you_mean_or_list(level, levels, "levels"));
}

Status set_log_level(std::string_view level) {
  if (auto status = check_log_level(level); !status) return status;
  spdlog::default_logger_raw()->set_level(spdlog::level::from_str(std::string(level)));
  return {};
}

Status start_log(std::string_view level) {
  if (auto status = check_log_level(level); !status) return status;
  auto out = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
      draws_colours() ? spdlog::color_mode::automatic : spdlog::color_mode::never);
  // On a terminal a line replaces the progress bar, which is then redrawn below it.
  out->set_pattern(draws() ? "\r\033[J%T %^%l%$ %v" : "%T %^%l%$ %v");
  outputs()->set_sinks({std::move(out)});
  auto logger = std::make_shared<spdlog::logger>("kinora", outputs());
  logger->set_level(spdlog::level::from_str(std::string(level)));
  logger->flush_on(spdlog::level::info);  // a killed process leaves its lines in the files
  logger->set_error_handler(on_log_error);
  spdlog::set_default_logger(std::move(logger));
  started.store(true, std::memory_order_release);
  return {};
}

std::string log_level() {
  const auto name = spdlog::level::to_string_view(spdlog::default_logger_raw()->level());
  return name == "warning" ? "warn" : std::string(name.data(), name.size());
}

void divert_log(std::function<void(int32_t, std::string_view)> to) { diverted() = std::move(to); }

void end_log_files() { outputs()->set_sinks({outputs()->sinks().at(0)}); }

void quiet_terminal() { outputs()->sinks().at(0)->set_level(spdlog::level::warn); }

Result<LogFile> LogFile::open(const std::filesystem::path& path) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string());
    sink->set_pattern("%Y-%m-%d %T.%e %l %v");
    outputs()->add_sink(sink);
    return LogFile(std::move(sink));
  } catch (const spdlog::spdlog_ex& e) {
    return fail(KINORA_ERROR_IO, "{}: cannot write the log ({}); choose another output folder with --out",
                path.string(), e.what());
  }
}

void LogFile::close() {
  if (!sink_) return;
  const auto sink = std::static_pointer_cast<spdlog::sinks::sink>(std::exchange(sink_, nullptr));
  outputs()->remove_sink(sink);
  try {
    sink->flush();
  } catch (const spdlog::spdlog_ex& e) {
    on_log_error(e.what());
  }
}

LogFile& LogFile::operator=(LogFile&& other) noexcept {
  close();
  sink_ = std::move(other.sink_);
  return *this;
}

LogFile::~LogFile() { close(); }

void log_line(int32_t level, std::string_view message) {
  // Code that logs before a program started the log (a test) must not write to stdout, which is for results.
  if (!started.load(std::memory_order_acquire)) static_cast<void>(start_log("info"));
  if (diverted()) {
    if (!spdlog::default_logger_raw()->should_log(spdlog_level(level))) return;
    diverted()(level, one_line(message));
    to_files(spdlog_level(level), message);
    return;
  }
  spdlog::default_logger_raw()->log(spdlog_level(level), one_line(message));
}

std::string log_to_files(std::string_view message) { return to_files(spdlog::level::debug, message); }

}  // namespace kinora::core
