// The process that makes the videos of one model: `kinora generate` at the other end of a
// socket, whose descriptor is in KINORA_REQUESTS. Messages are JSON, one a line. It beats in the pipe of KINORA_BEATS.
#pragma once
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/types.h>

#include "plugins/jobs/generate/beats.hpp"

namespace kinora::serve {

struct ModelCommand {
  std::string name;                    // of the model
  std::vector<std::string> arguments;  // the program first
  std::filesystem::path log;           // of what it says
};

class ModelProcess {
 public:
  using Take = std::function<void(const nlohmann::json& message)>;
  using End = std::function<void(const std::string& why)>;
  // Both are called in this object's thread: `take` for each message, `end` once, when the process is gone,
  // which it also is when the thread that calls this ends. Throws Error if it cannot be started.
  ModelProcess(ModelCommand command, Take take, End end);
  ModelProcess(const ModelProcess&) = delete;
  ModelProcess& operator=(const ModelProcess&) = delete;
  ~ModelProcess();  // ends the process

  // [any-thread] Never waits for the process. False: it is gone, or has not read for long.
  bool send(const nlohmann::json& message);
  // [any-thread] Lets it end by itself within this time, else kills it and all that it started.
  void stop(double seconds);
  // [any-thread] Seconds since the last sign of life, of its ranks of the one that has been silent longest; 0 before
  // the first one, while its program is loaded.
  double silence() { return beats_.silence(); }
  pid_t pid() const { return pid_; }

 private:
  void read();
  void write();
  std::string ended();
  const ModelCommand command_;
  const Take take_;
  const End end_;
  int socket_ = -1;
  pid_t pid_ = -1;
  core::HeardBeats beats_;
  std::mutex sending_, ending_;
  std::condition_variable has_unsent_;
  std::string unsent_;      // with sending_
  bool is_closed_ = false;  // with sending_: nothing more is sent
  bool is_over_ = false;    // with ending_
  std::thread reader_, writer_;
};

}  // namespace kinora::serve
