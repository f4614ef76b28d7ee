#include "core/workers/process.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <sys/wait.h>

namespace kinora::core {
namespace {

// Above the descriptor numbers that a worker expects.
Descriptor moved_up(int fd) { return Descriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 16)); }

// How a process starts: the descriptors it inherits, and that it leads a group.
class Beginning {
 public:
  Beginning() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes_, 0);
  }
  Beginning(const Beginning&) = delete;
  Beginning& operator=(const Beginning&) = delete;
  ~Beginning() {
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
  Beginning begin;
  auto* actions = begin.actions();
  posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(actions, output.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(actions, output.get(), STDERR_FILENO);
  posix_spawn_file_actions_adddup2(actions, socket.get(), kWorkerSocket);
  posix_spawn_file_actions_adddup2(actions, page.get(), kWorkerPage);
  posix_spawn_file_actions_addclosefrom_np(actions, kWorkerPage + 1);
  std::vector<std::string> words{program.program.string()};
  for (const auto& dir : program.plugin_dirs) words.insert(words.end(), {"--plugins", dir.string()});
  words.emplace_back("worker");
  const int error = ::posix_spawn(&pid_, program.program.c_str(), actions, begin.attributes(),
                                  pointers(words).data(), pointers(variables).data());
  waited_for_ = error != 0;
  if (error == 0) return;
  pid_ = -1;
  throw Error(KINORA_FAILED, fmt::format("{}: a worker process cannot be started from {}: {}", name,
                                         program.program.string(), std::strerror(error)));
}

bool WorkerProcess::has_ended() const {
  if (waited_for_) return true;
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
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

}  // namespace kinora::core
