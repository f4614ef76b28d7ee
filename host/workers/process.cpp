#include "host/workers/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <spawn.h>
#include <string_view>
#include <unistd.h>

#include <sys/wait.h>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"

namespace kinora::core {
namespace {

// Above the descriptor numbers that a worker expects.
Descriptor moved_up(int fd) { return Descriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 16)); }

// How a process starts: the descriptors it inherits, and that it leads a group.
class SpawnActions {
 public:
  SpawnActions() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes_, 0);
  }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  ~SpawnActions() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  posix_spawn_file_actions_t* actions() { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (auto& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

void WorkerProcess::start(const WorkerProgram& program, const std::string& name, const Inherited& inherited,
                          std::vector<std::string> variables) {
  const Descriptor socket = moved_up(inherited.socket), page = moved_up(inherited.page),
                   output = moved_up(inherited.output);
  SpawnActions begin;
  auto* actions = begin.actions();
  posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(actions, output.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(actions, output.get(), STDERR_FILENO);
  posix_spawn_file_actions_adddup2(actions, socket.get(), kWorkerSocket);
  posix_spawn_file_actions_adddup2(actions, page.get(), kWorkerPage);
  posix_spawn_file_actions_addclosefrom_np(actions, kWorkerPage + 1);
  std::vector<std::string> words{program.program.string()};
  for (const auto& dir : program.plugin_dirs) words.insert(words.end(), {"--plugins", dir.string()});
  if (!program.plugins_lock.empty())
    words.insert(words.end(), {"--plugins-lock", program.plugins_lock.string()});
  words.emplace_back("worker");
  const int error = ::posix_spawn(&pid_, program.program.c_str(), actions, begin.attributes(),
                                  pointers(words).data(), pointers(variables).data());
  waited_for_ = error != 0;
  if (error == 0) return;
  pid_ = -1;
  throw Error(KINORA_ERROR_FAILED, fmt::format("{}: a worker process cannot be started from {}: {}", name,
                                               program.program.string(), std::strerror(error)));
}

bool WorkerProcess::has_ended() const {
  if (waited_for_) return true;
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid_;
}

// The group's number stays reserved until the process has been waited for, so no other process can be hit.
int WorkerProcess::end() {
  if (std::exchange(waited_for_, true)) return 0;
  if (::kill(-pid_, SIGKILL) != 0) ::kill(pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 17> kNames = {"PATH",
                                                     "HOME",
                                                     "USER",
                                                     "LOGNAME",
                                                     "SHELL",
                                                     "LANG",
                                                     "LANGUAGE",
                                                     "TZ",
                                                     "TMPDIR",
                                                     "TMP",
                                                     "TEMP",
                                                     "LD_LIBRARY_PATH",
                                                     "LD_PRELOAD",
                                                     "GLIBC_TUNABLES",
                                                     "SSL_CERT_FILE",
                                                     "SSL_CERT_DIR",
                                                     "LLVM_PROFILE_FILE"};
constexpr std::array<std::string_view, 16> kBeginnings = {
    "LC_",     "KINORA_", "XDG_",    "OMP_",  "GOMP_",    "KMP_",  "MKL_",  "OPENBLAS_",
    "MALLOC_", "CUDA_",   "NVIDIA_", "TORCH", "PYTORCH_", "ASAN_", "TSAN_", "UBSAN_"};
// Words in the names of variables that contain secrets.
constexpr std::array<std::string_view, 5> kSecret = {"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"};
constexpr std::array<std::string_view, 8> kProxies = {"http_proxy", "https_proxy", "all_proxy", "no_proxy",
                                                      "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"};

template <size_t N>
bool is_among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_plain(std::string_view name) {
  if (is_among(kNames, name)) return true;
  const auto begins = [&](std::string_view with) { return name.starts_with(with); };
  const auto holds = [&](std::string_view word) { return name.find(word) != name.npos; };
  return std::any_of(kBeginnings.begin(), kBeginnings.end(), begins) &&
         std::none_of(kSecret.begin(), kSecret.end(), holds);
}

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

}  // namespace

std::vector<std::string> worker_environment(const json& stage_options) {
  std::set<std::string, std::less<>> asked;
  for (const auto& [name, value] : stage_options.items())
    if (name.ends_with("_env") && value.is_string()) asked.insert(value.get<std::string>());
  std::vector<std::string> out;
  for (char** entry = environ; *entry; ++entry)
    if (const auto name = name_of(*entry); is_plain(name) || asked.contains(name)) out.emplace_back(*entry);
  const json lent = storage_environment();
  for (const auto& [name, value] : lent.items())
    if (!asked.contains(name)) out.push_back(name + "=");
  return out;
}

json storage_environment() {
  json out = json::object();
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry, name = name_of(text);
    if (name.size() < text.size() && (name.starts_with("AWS_") || is_among(kProxies, name)))
      out[std::string(name)] = std::string(text.substr(name.size() + 1));
  }
  return out;
}

bool needs_storage(std::string_view uri) {
  const size_t at = uri.find("://");
  const std::string_view scheme = uri.substr(0, at == uri.npos ? 0 : at);
  return !scheme.empty() && scheme != "file" && scheme.find_first_of("/ \n") == scheme.npos;
}

bool names_storage(const json& stage_options) {
  return std::any_of(stage_options.begin(), stage_options.end(), [](const json& value) {
    if (value.is_array() || value.is_object()) return names_storage(value);
    return value.is_string() && !value.get_ref<const std::string&>().starts_with("http") &&
           needs_storage(value.get_ref<const std::string&>());
  });
}

WorkerOutput::WorkerOutput(std::string name) : name_(std::move(name)) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error(KINORA_ERROR_IO,
                fmt::format("a pipe for a worker: {}; raise the limit on open files (ulimit -n)",
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
  if (left_out_ > 0)
    log_line(level, fmt::format("{}: its process wrote {} lines before these", name_, left_out_));
  for (const auto& line : lines_) log_line(level, fmt::format("{}: its process wrote: {}", name_, line));
  lines_.clear();
  left_out_ = 0;
}

}  // namespace kinora::core
