#include "core/base/cancel.hpp"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <string_view>
#include <unistd.h>

#include "core/base/terminal.hpp"

namespace kinora::core {
namespace {

std::atomic<bool> asked{false}, save_asked{false};
// Set before there is a handler. On a terminal it replaces the progress bar, and the ^C that is written into it.
std::string_view stopping = "\nstopping; press Ctrl-C again to end at once\n";

// A service's stop sends SIGTERM to the launcher and to its ranks, and the launcher forwards it: one request.
constexpr int64_t kOnce = 2;  // seconds
std::atomic<int64_t> terminated{INT64_MIN / 2};

int64_t seconds_now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec;
}

void on_signal(int signal) {
  if (signal == SIGTERM) {
    const int64_t now = seconds_now();
    if (now - terminated <= kOnce) return;
    terminated = now;
  }
  if (asked.exchange(true)) _exit(130);
  [[maybe_unused]] const auto written = write(STDERR_FILENO, stopping.data(), stopping.size());
}

}  // namespace

void watch_signals() {
  if (draws()) stopping = "\r\033[Jstopping; press Ctrl-C again to end at once\n";
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction save {};
  save.sa_handler = [](int) { request_save(); };
  save.sa_flags = SA_RESTART;
  sigemptyset(&save.sa_mask);
  sigaction(SIGUSR1, &save, nullptr);
  for (const int one : {SIGPIPE, SIGXFSZ}) std::signal(one, SIG_IGN);  // the call fails instead
}

bool cancelled() { return asked.load(std::memory_order_relaxed); }
void cancel(bool on) { asked = on; }
bool take_save_request() { return save_asked.exchange(false); }
void request_save() { save_asked = true; }

}  // namespace kinora::core
