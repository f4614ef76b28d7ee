// The ranks of one launch on this machine, which are started, watched and stopped together.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace kinora {

struct WorldPlan {
  int size = 1;
  std::vector<std::string> arguments;      // of every rank, which runs this program too
  std::filesystem::path logs;              // folder for rank-0.log ...
  std::string headline;                    // first line of each log
  std::string rendezvous;                  // KINORA_RENDEZVOUS
  int restart = 0;                         // number of earlier starts of all ranks
  int64_t timeout_ms = 0;                  // limit of a transfer; 0: KINORA_TIMEOUT_MS
  std::chrono::milliseconds grace{10000};  // from asking a rank to stop to ending it
};

struct WorldEnd {
  int code = 0;              // exit code: 0, the failed rank's, or 130
  bool interrupted = false;  // by a signal to this program
};

// Blocks SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGCHLD for the thread that creates it, and for threads that it
// starts later, while it lives, and makes them readable from fd().
class Signals {
 public:
  Signals();
  ~Signals();
  int fd() const { return fd_; }

 private:
  int fd_;
};

// Starts the ranks and returns when all have ended. SIGINT, SIGTERM and SIGHUP ask every rank to stop; a
// second one kills them at once. SIGUSR1 is forwarded. If a rank fails, the others get a moment to log their
// own errors, are asked to stop, and are killed after the grace period. The failed rank is logged with its
// last lines. No rank outlives this process. Throws Error.
WorldEnd run_world(const WorldPlan&, const Signals&);

}  // namespace kinora
