// A worker's process: how it starts and ends, the environment variables that it inherits, and its output.
#pragma once
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/types.h>

#include "host/workers/channel.hpp"

namespace kinora::core {

// The program, started as `PROGRAM --plugins DIR... [--plugins-lock FILE] worker`, which calls serve_worker().
struct WorkerProgram {
  std::filesystem::path program;
  std::vector<std::filesystem::path> plugin_dirs;
  double making = 600;  // time limit for creating an instance: a large model may be read from a slow disk
  std::filesystem::path plugins_lock{};  // empty: none
};

// The descriptors that it inherits.
constexpr int kWorkerSocket = 3, kWorkerPage = 4;

// It leads its own process group, so that everything its stage has started ends with it. [owner-thread]
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
  void start(const WorkerProgram&, const std::string& name, const Inherited&,
             std::vector<std::string> variables);
  pid_t pid() const { return pid_; }
  // Whether it is gone, whichever process holds the other end of its socket.
  bool has_ended() const;
  // Kills it and its group, and waits for it. Returns the status of waitpid(), which shows how it ended if it
  // had done so by itself; 0 the second time.
  int end();

 private:
  pid_t pid_ = -1;
  bool waited_for_ = true;
};

// The entries NAME=value of the environment that a worker starts with: locations of programs and libraries,
// languages, folders, settings of numeric libraries and of Kinora, and the variables that the stage's options
// name (options ending in "_env", such as api_key_env). A worker parses untrusted media, so it gets no secret
// that it does not need: neither this process's tokens and passwords, nor the keys of storages as long as
// everything it reads is on this machine. Storage variables are set to empty values: lending them later then
// replaces a value in place, which is safe for threads of a stage that read the environment.
std::vector<std::string> worker_environment(const nlohmann::json& stage_options);

// Credentials for storages on other machines: AWS_* and proxies.
nlohmann::json storage_environment();

// Whether the text is a URI of such a storage.
bool needs_storage(std::string_view uri);

// Whether an option of the stage is one.
bool names_storage(const nlohmann::json& stage_options);

// Copies a worker's stdout and stderr to the log, so that the last words of a stage that died are kept.
// [owner-thread]
class WorkerOutput {
 public:
  // Throws Error.
  explicit WorkerOutput(std::string name);
  // For the worker; this process must close its own copy once the worker has it.
  int descriptor() const { return write_.get(); }
  void close() { write_ = Descriptor(); }

  // Reads what is available, without waiting.
  void read();
  // Logs the last lines since the previous call, at most kMostLines, and how many are left out. With `all`,
  // the last line need not be complete.
  void say(int32_t level, bool all);

  static constexpr size_t kMostLines = 40, kLongestLine = 1000;

 private:
  void take(char c);
  void end_line();
  const std::string name_;
  Descriptor read_, write_;
  std::deque<std::string> lines_;
  std::string line_;
  size_t left_out_ = 0;
};

}  // namespace kinora::core
