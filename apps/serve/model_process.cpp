#include "apps/serve/model_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "kinora/error.hpp"
#include "plugins/jobs/generate/json_lines.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace kinora::serve {

namespace {

constexpr int kSocketOfModel = 3, kBeatsOfModel = 4;
constexpr size_t kMostUnsent = 64 << 20;

// Not one of the numbers that the process gets: dup2 would close it, or leave it closed on exec.
int copied(int descriptor) { return fcntl(descriptor, F_DUPFD_CLOEXEC, 16); }

// Starts the program as the leader of a group, with two more descriptors.
pid_t started(const ModelCommand& command, int socket, int beats) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, command.log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawn_file_actions_adddup2(&actions, socket, kSocketOfModel);
  posix_spawn_file_actions_adddup2(&actions, beats, kBeatsOfModel);
  posix_spawn_file_actions_addclosefrom_np(&actions, kBeatsOfModel + 1);  // the server's connections
  std::vector<std::string> texts = command.arguments;
  std::vector<char*> arguments;
  for (auto& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  pid_t pid = -1;
  std::string requests = fmt::format("KINORA_REQUESTS={}", kSocketOfModel),
              pipe = fmt::format("KINORA_BEATS={}", kBeatsOfModel);
  std::vector<char*> variables{requests.data(), pipe.data()};
  for (char** one = environ; *one; ++one)
    if (!std::string_view(*one).starts_with("KINORA_SERVE_")) variables.push_back(*one);
  variables.push_back(nullptr);
  const int error =
      posix_spawn(&pid, arguments[0], &actions, &attributes, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0)
    throw Error(KINORA_ERROR_FAILED, fmt::format("the process of model '{}' cannot be started: {}",
                                                 command.name, std::strerror(error)));
  return pid;
}

}  // namespace

ModelProcess::ModelProcess(ModelCommand command, Take take, End end)
    : command_(std::move(command)), take_(std::move(take)), end_(std::move(end)) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(KINORA_ERROR_FAILED, std::string("no socket for a model's process: ") + std::strerror(errno));
  const int other = copied(ends[1]), beats = copied(beats_.pipe());
  close(ends[1]);
  socket_ = ends[0];
  const auto close_copies = [&] {
    for (const int copy : {other, beats}) close(copy);
  };
  try {
    pid_ = started(command_, other, beats);
  } catch (...) {
    close_copies();
    close(socket_);
    throw;
  }
  close_copies();
  reader_ = std::thread([this] { read(); });
  writer_ = std::thread([this] { write(); });
}

ModelProcess::~ModelProcess() {
  stop(0);
  {
    const std::scoped_lock lock(sending_);
    is_closed_ = true;
  }
  has_unsent_.notify_one();
  writer_.join();
  reader_.join();
  close(socket_);
}

bool ModelProcess::send(const nlohmann::json& message) {
  const std::string line = core::json_line(message);
  const std::scoped_lock lock(sending_);
  if (is_closed_ || unsent_.size() + line.size() > kMostUnsent) return false;
  unsent_ += line;
  has_unsent_.notify_one();
  return true;
}

void ModelProcess::write() {
  std::unique_lock lock(sending_);
  for (;;) {
    has_unsent_.wait(lock, [this] { return is_closed_ || !unsent_.empty(); });
    if (is_closed_) return;
    const std::string bytes = std::exchange(unsent_, {});
    lock.unlock();
    const bool is_sent = core::send_all(socket_, bytes);
    lock.lock();
    is_closed_ = is_closed_ || !is_sent;
  }
}

// Its end of the socket closes when it ends, and ours tells it to end.
void ModelProcess::stop(double seconds) {
  shutdown(socket_, SHUT_WR);
  pollfd gone{socket_, POLLRDHUP, 0};
  if (seconds > 0) poll(&gone, 1, static_cast<int>(seconds * 1000));
  const std::scoped_lock lock(ending_);
  if (!is_over_) killpg(pid_, SIGKILL);
}

void ModelProcess::read() {
  core::JsonLines lines(socket_);
  while (const auto message = lines.next()) take_(*message);
  stop(0);
  end_(ended());
}

std::string ModelProcess::ended() {
  int status = 0;
  {
    const std::scoped_lock lock(ending_);
    waitpid(pid_, &status, 0);
    is_over_ = true;  // from now on the system may give its number to another process
  }
  if (WIFSIGNALED(status)) return fmt::format("it was ended by signal {}", WTERMSIG(status));
  return fmt::format("it ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace kinora::serve
