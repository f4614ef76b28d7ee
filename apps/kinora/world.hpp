// The ranks of one launch on this machine: started together, watched, and stopped together.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace kinora {

struct WorldPlan {
  int size = 1;
  std::vector<std::string> arguments;      // of every rank, which is another copy of this program
  std::filesystem::path logs;              // folder of rank-0.log ...
  std::string headline;                    // first line of each log
  std::string rendezvous;                  // KINORA_RENDEZVOUS
  int restart = 0;                         // how often all ranks were started before
  int64_t timeout_ms = 0;                  // of a transfer; 0: as KINORA_TIMEOUT_MS says
  std::chrono::milliseconds grace{10000};  // from asking a rank to stop to ending it
};

struct WorldEnd {
  int code = 0;              // exit code: 0, the failed rank's, or 130
  bool interrupted = false;  // by a signal to this program
};

// SIGINT, SIGTERM and SIGHUP ask every rank to stop, a second one ends them at once; SIGUSR1 is passed on.
// A rank that fails ends the world: the others have a moment to say what they missed, are asked to stop, and
// are ended after the grace period. What failed is logged with its last lines. No rank outlives this process.
class Signals {  // blocks them for this process while it lives
 public:
  Signals();
  ~Signals();
  int fd() const { return fd_; }

 private:
  int fd_;
};
WorldEnd run_world(const WorldPlan&, const Signals&);

}  // namespace kinora
