#include "apps/command/world.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <memory>
#include <optional>
#include <poll.h>
#include <sched.h>
#include <unistd.h>
#include <utility>

#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "apps/command/command_line.hpp"
#include "apps/command/rank_output.hpp"
#include "core/base/log.hpp"
#include "kinora/error.hpp"

namespace kinora {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// After one rank has failed, the others get this long to end by themselves, so that they can log their own
// errors.
constexpr milliseconds kMoment{5000};

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD}) sigaddset(&set, s);
  return set;
}

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

std::vector<std::string> environment_of(const WorldPlan& plan, int rank) {
  std::vector<std::string> out{"RANK=" + std::to_string(rank),
                               "WORLD_SIZE=" + std::to_string(plan.size),
                               "LOCAL_RANK=" + std::to_string(rank),
                               "LOCAL_WORLD_SIZE=" + std::to_string(plan.size),
                               "GROUP_RANK=0",
                               "KINORA_LAUNCH=1",
                               "TORCHELASTIC_RESTART_COUNT=" + std::to_string(plan.restart),
                               "KINORA_RENDEZVOUS=" + plan.rendezvous};
  if (plan.timeout_ms > 0) out.push_back("KINORA_TIMEOUT_MS=" + std::to_string(plan.timeout_ms));
  // Ranks that each use all cores would slow each other down.
  if (!std::getenv("OMP_NUM_THREADS"))
    out.push_back("OMP_NUM_THREADS=" + std::to_string(std::max(1, usable_cores() / plan.size)));
  const size_t own = out.size();
  for (char** e = environ; *e; ++e) {
    const std::string_view name(*e, std::strcspn(*e, "=") + 1);
    bool ours = false;
    for (size_t i = 0; i < own; ++i) ours = ours || out[i].compare(0, name.size(), name) == 0;
    if (!ours) out.emplace_back(*e);
  }
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (auto& t : texts) out.push_back(t.data());
  out.push_back(nullptr);
  return out;
}

struct RankProcess {
  int rank = 0;
  std::unique_ptr<RankOutput> output;
  pid_t pid = -1;
  std::optional<int> status{};  // from waitpid, after the process has ended

  bool runs() const { return pid > 0 && !status; }
  void send(int signal) const {
    if (runs()) kill(pid, signal);
  }
  bool failed() const { return status && !(WIFEXITED(*status) && WEXITSTATUS(*status) == 0); }
  int code() const { return WIFEXITED(*status) ? WEXITSTATUS(*status) : kFailed; }
  std::string how() const {
    if (WIFEXITED(*status)) return "ended with code " + std::to_string(WEXITSTATUS(*status));
    return "was killed by signal " + std::to_string(WTERMSIG(*status)) + " (" + strsignal(WTERMSIG(*status)) +
           ")";
  }
};

// Starts a rank in its own process group, so that Ctrl-C reaches it through this program only. It dies with
// this program.
void start(RankProcess& p, const WorldPlan& plan) {
  std::vector<std::string> arguments{"kinora"}, environment = environment_of(plan, p.rank);
  arguments.insert(arguments.end(), plan.arguments.begin(), plan.arguments.end());
  const auto argv = pointers(arguments), envp = pointers(environment);
  const int out = p.output->stdout_of_rank(), err = p.output->stderr_of_rank();
  const pid_t parent = getpid();
  p.pid = fork();
  if (p.pid < 0)
    throw Error(KINORA_ERROR_FAILED, std::string("cannot start a rank: ") + std::strerror(errno));
  if (p.pid > 0) {
    p.output->started();
    return;
  }
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kFailed);
  const sigset_t mine = watched();
  sigprocmask(SIG_UNBLOCK, &mine, nullptr);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execve("/proc/self/exe", argv.data(), envp.data());
  _exit(kFailed);
}

class World {
 public:
  World(const WorldPlan& plan, const Signals& signals) : plan_(plan), signals_(signals) {
    for (int r = 0; r < plan.size; ++r)
      ranks_.push_back({r, std::make_unique<RankOutput>(plan.logs / ("rank-" + std::to_string(r) + ".log"),
                                                        plan.headline, r == 0)});
    for (auto& p : ranks_) start(p, plan);
  }
  ~World() {
    for (auto& p : ranks_) {
      p.send(SIGKILL);
      if (p.runs()) waitpid(p.pid, nullptr, 0);
    }
  }

  WorldEnd run() {
    while (any_runs() || is_read()) step();
    if (first_ && asked_ == 0 && first_->code() == kUsage && ranks_[0].code() != kUsage) tell(*first_);
    if (asked_ > 0 && first_) return {kInterrupted, true};
    return first_ ? WorldEnd{first_->code(), false} : WorldEnd{};
  }

 private:
  bool any_runs() const {
    for (const auto& p : ranks_)
      if (p.runs()) return true;
    return false;
  }
  bool is_read() const {
    const auto fds = ranks_[0].output->readable();
    return fds[0] >= 0 || fds[1] >= 0;
  }

  void step() {
    const auto fds = ranks_[0].output->readable();
    pollfd wait[3] = {{signals_.fd(), POLLIN, 0}, {fds[0], POLLIN, 0}, {fds[1], POLLIN, 0}};
    const auto left =
        deadline_ ? std::chrono::ceil<milliseconds>(*deadline_ - Clock::now()) : milliseconds(60000);
    poll(wait, 3, static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60000)));
    for (const size_t i : {0, 1})
      if (wait[i + 1].revents) ranks_[0].output->pass_on(i);
    signalfd_siginfo signal{};
    while (read(signals_.fd(), &signal, sizeof signal) == sizeof signal)
      handle(static_cast<int>(signal.ssi_signo));
    if (deadline_ && Clock::now() >= *deadline_) next_stage();
  }

  void handle(int signal) {
    if (signal == SIGUSR1) return send(SIGUSR1);
    if (signal != SIGCHLD) return ++asked_ == 1 ? stop() : send(SIGKILL);
    for (auto& p : ranks_) {
      int status = 0;
      if (!p.runs() || waitpid(p.pid, &status, WNOHANG) != p.pid) continue;
      p.status = status;
      if (p.failed() && !first_) fail(p);
    }
  }

  void fail(const RankProcess& p) {
    first_ = &p;
    if (p.code() == kInterrupted) {  // a stop request to one rank stops all
      if (!std::exchange(stopping_, true)) send(SIGTERM);
      return;
    }
    if (!deadline_) deadline_ = Clock::now() + (stopping_ ? plan_.grace : kMoment);
    if (asked_ == 0 && p.code() != kUsage)
      tell(p);  // all ranks refuse the same configuration, and rank 0 is displayed
  }

  void tell(const RankProcess& p) const {
    core::log_error("launch: rank {} of {} {}; the world is stopped", p.rank, plan_.size, p.how());
    if (p.rank > 0) std::cerr << p.output->last_lines(12);
    core::log_error("launch: its full log: {}", p.output->log().string());
  }

  // Called at a deadline: asks the ranks to stop first, then kills them.
  void next_stage() {
    if (!stopping_) return stop();
    deadline_.reset();
    for (const auto& p : ranks_)
      if (p.runs())
        core::log_warn("launch: rank {} did not stop within {} ms and is killed", p.rank,
                       plan_.grace.count());
    send(SIGKILL);
  }
  void stop() {
    stopping_ = true;
    // After a user's request, wait for the checkpoint. Ranks that lost a peer cannot write one.
    deadline_ = asked_ > 0 && !first_ ? std::nullopt : std::optional(Clock::now() + plan_.grace);
    send(SIGTERM);
  }
  void send(int signal) const {
    for (const auto& p : ranks_) p.send(signal);
  }

  const WorldPlan& plan_;
  const Signals& signals_;
  std::vector<RankProcess> ranks_;
  const RankProcess* first_ = nullptr;  // the first that failed
  std::optional<Clock::time_point> deadline_;
  bool stopping_ = false;
  int asked_ = 0;  // stop signals received
};

}  // namespace

Signals::Signals() {
  const sigset_t set = watched();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd_ < 0) throw Error(KINORA_ERROR_FAILED, std::string("signalfd: ") + std::strerror(errno));
}

Signals::~Signals() {
  close(fd_);
  const sigset_t set = watched();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

WorldEnd run_world(const WorldPlan& plan, const Signals& signals) { return World(plan, signals).run(); }

}  // namespace kinora
