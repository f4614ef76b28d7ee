#include "core/base/program_output.hpp"

#include <cerrno>
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/wait.h>

namespace kinora::core {

std::string output_of(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int out = memfd_create("kinora-output", MFD_CLOEXEC);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const bool runs =
      out >= 0 && posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ) == 0;
  while (runs && waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  posix_spawn_file_actions_destroy(&actions);
  std::string said;
  char piece[4096];
  for (ssize_t n; (n = pread(out, piece, sizeof piece, static_cast<off_t>(said.size()))) > 0;)
    said.append(piece, static_cast<size_t>(n));
  if (out >= 0) ::close(out);
  return said;
}

}  // namespace kinora::core
