#include "plugins/engines/ray/wire.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <spawn.h>
#include <string>
#include <thread>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/wait.h>

#include "host/workers/channel.hpp"
#include "host/workers/sample_message.hpp"

namespace kinora::ray {
namespace {

constexpr size_t kMostFreed = 1000;  // numbers in one letter, whose head is bounded

}  // namespace

struct Wire::Ends {
  explicit Ends(int socket) : channel(core::Descriptor(socket)) {}
  core::Channel channel;
  std::mutex sending{};
};

Wire::Wire(int socket) : ends_(std::make_unique<Ends>(socket)) {}

Wire::~Wire() = default;

void Wire::send(nlohmann::json head, const Sample* sample) const {
  core::Message message;
  message.head = std::move(head);
  if (sample) {
    Sample here = sample->clone(sample->key());
    here.remove(engines::kRemote);
    core::put_sample(message, here);
    put_elsewhere(message.head, elsewhere(*sample));
  }
  // What is freed is told before what got its room.
  const std::lock_guard lock(ends_->sending);
  if (auto freed = pieces_->take_freed(kMostFreed); !freed.empty()) message.head["free"] = std::move(freed);
  ends_->channel.send(message);
}

Wire::Got Wire::receive(Letter& out, int milliseconds) const {
  core::Message message;
  const auto got = ends_->channel.receive(message, milliseconds);
  if (got != core::Channel::Got::message)
    return got == core::Channel::Got::closed ? Got::closed : Got::nothing;
  out = {};
  if (message.head.contains("sample")) {
    try {
      out.elsewhere = take_elsewhere(message.head);
    } catch (const std::exception&) {
      throw Error(KINORA_ERROR_DATA, "the other side sent a sample without its pieces");
    }
    out.sample = core::take_sample(message);
    message.head.erase("sample");
  }
  out.head = std::move(message.head);
  return Got::letter;
}

BridgeProcess::BridgeProcess(const std::string& python) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(KINORA_ERROR_IO,
                std::string("engine/ray: no socket for its bridge: ") + std::strerror(errno));
  core::Descriptor here(ends[0]), there(::fcntl(ends[1], F_DUPFD_CLOEXEC, 16));
  const core::Descriptor low(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, there.get(), kEnd);
  posix_spawn_file_actions_addclosefrom_np(&actions, kEnd + 1);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // Ctrl-C is for this process alone
  posix_spawnattr_setpgroup(&attributes, 0);
  std::string words[] = {python, "-m", "kinora_ray", "bridge"};
  char* pointers[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  const int error = ::posix_spawnp(&pid_, python.c_str(), &actions, &attributes, pointers, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0)
    throw Error(KINORA_ERROR_NOT_FOUND, "engine/ray: '" + python + "' cannot be started (" +
                                            std::strerror(error) +
                                            "); set the option python to an interpreter that has kinora-ray");
  socket_ = ::fcntl(here.get(), F_DUPFD_CLOEXEC, 0);
}

// It ends by itself when the wire does, and stops the raylets that it has started; one that was killed left them. Its
// group exists until waitpid().
BridgeProcess::~BridgeProcess() {
  if (socket_ >= 0) ::close(socket_);
  siginfo_t ended{};
  for (int tenths = 0; tenths < 100 && ended.si_pid == 0; ++tenths) {
    if (::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0) return;
    if (ended.si_pid == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace kinora::ray
