// A worker's process: in a process group of its own, so that whatever its stage has started ends with it.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

#include "core/workers/channel.hpp"

namespace kinora::core {

// The program that is started as `PROGRAM --plugins DIR... worker`, which calls serve_worker().
struct WorkerProgram {
  std::filesystem::path program;
  std::vector<std::filesystem::path> plugin_dirs;
  double making = 600;  // seconds that an instance may take to be made: a large model is read from a slow disk
};

// The descriptors that it inherits.
constexpr int kWorkerSocket = 3, kWorkerPage = 4;

// [owner-thread]
class WorkerProcess {
 public:
  struct Inherited {
    int socket, page, output;  // output: its stdout and stderr
  };
  WorkerProcess() = default;
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;
  ~WorkerProcess() { end(); }

  // name: for messages; variables: NAME=value, its environment. Throws Error.
  void start(const WorkerProgram&, const std::string& name, const Inherited&, std::vector<std::string> variables);
  pid_t pid() const { return pid_; }
  // Whether it is gone, whoever holds the other end of its socket.
  bool has_ended() const;
  // Kills it and its group, and waits for it. The status of waitpid(): how it had ended if it had by itself. 0 the second time.
  int end();

 private:
  pid_t pid_ = -1;
  bool waited_for_ = true;
};

}  // namespace kinora::core
