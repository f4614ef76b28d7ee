// A worker's process: in its own process group, so that everything its stage has started ends with it.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

#include "core/workers/channel.hpp"

namespace kinora::core {

// The program, started as `PROGRAM --plugins DIR... worker`, which calls serve_worker().
struct WorkerProgram {
  std::filesystem::path program;
  std::vector<std::filesystem::path> plugin_dirs;
  double making = 600;  // time limit for creating an instance: a large model may be read from a slow disk
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

  // name: for messages; variables: its environment, NAME=value. Throws Error.
  void start(const WorkerProgram&, const std::string& name, const Inherited&, std::vector<std::string> variables);
  pid_t pid() const { return pid_; }
  // Whether it is gone, whichever process holds the other end of its socket.
  bool has_ended() const;
  // Kills it and its group, and waits for it. Returns the status of waitpid(), which shows how it ended if it had done so by
  // itself; 0 the second time.
  int end();

 private:
  pid_t pid_ = -1;
  bool waited_for_ = true;
};

}  // namespace kinora::core
