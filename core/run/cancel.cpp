#include "core/run/cancel.hpp"

#include <atomic>
#include <csignal>
#include <unistd.h>

namespace kinora::core {
namespace {

std::atomic<bool> asked{false}, save_asked{false};

void on_signal(int) {
  if (asked.exchange(true)) _exit(130);
  constexpr char text[] = "\nstopping; press Ctrl-C again to end at once\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text, sizeof text - 1);
}

}  // namespace

void watch_signals() {
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
  std::signal(SIGPIPE, SIG_IGN);
}

bool cancelled() { return asked.load(std::memory_order_relaxed); }
void cancel(bool on) { asked = on; }
bool take_save_request() { return save_asked.exchange(false); }
void request_save() { save_asked = true; }

}  // namespace kinora::core
