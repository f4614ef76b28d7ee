#include "apps/command/surroundings.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include <sys/stat.h>

#include "core/base/cancel.hpp"
#include "core/base/log.hpp"
#include "core/plugin/host.hpp"
#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace kinora {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGUSR1, SIGPIPE, SIGCHLD};

// The bits of MXCSR that choose how numbers are computed; the others record what happened.
constexpr unsigned kModes = 0xffc0;

unsigned modes() {
#ifdef __SSE__
  return _mm_getcsr() & kModes;
#else
  return 0;
#endif
}

void set_modes([[maybe_unused]] unsigned to) {
#ifdef __SSE__
  _mm_setcsr((_mm_getcsr() & ~kModes) | to);
#endif
}

// The working directory.
std::pair<dev_t, ino_t> folder() {
  struct stat s {};
  ::stat(".", &s);
  return {s.st_dev, s.st_ino};
}

struct Kept {
  std::atomic<unsigned> modes = 0;
  std::atomic<mode_t> mask = 0;
  // Whether the process is our own: only then are the signal handlers and the working directory compared.
  bool is_own = false;
  std::array<struct sigaction, kSignals.size()> actions{};
  std::pair<dev_t, ino_t> folder;
  int folder_fd = -1;
};
Kept kept;
thread_local const unsigned* modes_of_thread = nullptr;  // of a ThreadModes

void keep() {
  kept.modes = modes();
  const mode_t mask = ::umask(0);
  ::umask(mask);
  kept.mask = mask;
}

void warn_once(std::atomic<bool>& warned, std::string_view who, const char* what) {
  if (!warned.exchange(true))
    core::log_warn("{} changed {}; it is put back, but other plugins have seen it", who, what);
}

void put_back(std::string_view who) {
  static std::atomic<bool> of_modes, of_mask, of_folder, of_signals;
  if (const unsigned before = modes_of_thread ? *modes_of_thread : kept.modes.load(); modes() != before) {
    set_modes(before);
    warn_once(of_modes, who, "the modes of floating-point arithmetic (-ffast-math, when it was linked?)");
  }
  if (::umask(kept.mask) != kept.mask) warn_once(of_mask, who, "the umask, and so who may read new files");
  if (!kept.is_own) return;
  if (folder() != kept.folder && ::fchdir(kept.folder_fd) == 0)
    warn_once(of_folder, who, "the working directory, which relative paths begin at");
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction now {};
    if (::sigaction(kSignals[i], nullptr, &now) != 0 || now.sa_handler == kept.actions[i].sa_handler)
      continue;
    ::sigaction(kSignals[i], &kept.actions[i], nullptr);
    warn_once(of_signals, who, "what a signal does, so that Ctrl-C might not end the program");
  }
}

}  // namespace

void own_process() {
  core::watch_signals();
  keep();
  kept.folder = folder();
  kept.folder_fd = ::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  kept.is_own = true;
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], nullptr, &kept.actions[i]);
  core::after_calls(put_back);
}

KeptSurroundings::KeptSurroundings() {
  keep();
  core::after_calls(put_back);
}

KeptSurroundings::~KeptSurroundings() {
  put_back("a plugin");  // what a call without a status has changed, such as destroy()
  core::after_calls(nullptr);
}

ThreadModes::ThreadModes() : modes_(modes()), outer_(modes_of_thread) { modes_of_thread = &modes_; }
ThreadModes::~ThreadModes() { modes_of_thread = outer_; }

}  // namespace kinora
