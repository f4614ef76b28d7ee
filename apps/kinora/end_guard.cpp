#include "apps/kinora/end_guard.hpp"

#include <algorithm>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <filesystem>
#include <link.h>
#include <string>
#include <string_view>
#include <unistd.h>

#include <sys/syscall.h>

#include "apps/kinora/command.hpp"
#include "kinora/abi/plugin.h"

namespace kinora {
namespace {

constexpr const char* kRemedy =
    "leave the plugin out or fix it; a stage can run in a process of its own, where this costs one sample: "
    "isolate = [\"all\"] of engine/local\n";

std::atomic<pid_t> guarded_process{0};

bool is_guarded() { return guarded_process.load(std::memory_order_relaxed) == ::getpid(); }

// One line on stderr, put together without memory from the heap: a signal handler may use it.
class RawLine {
 public:
  RawLine& operator<<(const char* text) {
    const size_t n = std::min(std::strlen(text), sizeof text_ - size_);
    std::memcpy(text_ + size_, text, n);
    size_ += n;
    return *this;
  }
  RawLine& operator<<(int number) {
    char digits[16], *at = digits + sizeof digits - 1;
    *at = '\0';
    const bool negative = number < 0;
    for (unsigned left = negative ? 0u - static_cast<unsigned>(number) : static_cast<unsigned>(number);
         at == digits + sizeof digits - 1 || left > 0; left /= 10)
      *--at = static_cast<char>('0' + left % 10);
    if (negative) *--at = '-';
    return *this << at;
  }
  void print() const { [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text_, size_); }

 private:
  char text_[PATH_MAX + 512];
  size_t size_ = 0;
};

// The path of the plugin's library that contains this code: a library among whose symbols is a plugin's
// entry. Null: the code is no plugin's. Neither allocates nor locks, so a signal handler may call it.
const char* plugin_at(void* code) {
  dl_find_object found{};
  if (::_dl_find_object(code, &found) != 0 || !found.dlfo_link_map) return nullptr;
  const char* names = nullptr;
  size_t size = 0;
  for (const auto* d = found.dlfo_link_map->l_ld; d->d_tag != DT_NULL; ++d) {
    if (d->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(d->d_un.d_ptr);
    if (d->d_tag == DT_STRSZ) size = d->d_un.d_val;
  }
  if (names < found.dlfo_map_start || names + size > found.dlfo_map_end) return nullptr;
  constexpr std::string_view kEntry("\0" KINORA_PLUGIN_ENTRY,
                                    sizeof KINORA_PLUGIN_ENTRY + 1);  // with both ends
  return std::string_view(names, size).find(kEntry) != std::string_view::npos ? found.dlfo_link_map->l_name
                                                                              : nullptr;
}

// Folder of the plugins that came with this program; set before a handler can run.
char own_plugins[PATH_MAX];

bool is_own(const char* path) { return std::strncmp(path, own_plugins, std::strlen(own_plugins)) == 0; }

// The plugin whose code runs in this thread: the nearest on its stack, of another maker if there is one; null if
// none does. The nearest of Kinora's own says little: a job and an engine are on the stack of whatever a run does.
const char* plugin_of_this_thread() {
  void* frames[128];
  const int n = ::backtrace(frames, 128);
  const char* own = nullptr;
  for (int i = 0; i < n; ++i)
    if (const char* path = plugin_at(frames[i])) {
      if (!is_own(path)) return path;
      if (!own) own = path;
    }
  return own;
}

[[noreturn]] void end_now(int status) {
  for (;;) ::syscall(SYS_exit_group, status);
}

// Ends the program because of a call of the plugin, or of other code if it is null.
[[noreturn]] void end_program(const char* plugin, const char* function, int status) {
  std::fflush(stdout);
  RawLine line;
  line << "kinora: " << (plugin ? "plugin " : "code outside of any plugin") << (plugin ? plugin : "")
       << " called " << function << "(" << status << "), which ended this program before its work was done; "
       << (plugin ? kRemedy : "please report this as a bug\n");
  line.print();
  end_now(kFailed);
}

void on_exit_called(int status, void*) {
  if (is_guarded()) end_program(plugin_of_this_thread(), "exit", status);
}

// The status is not known here.
void on_quick_exit() {
  if (is_guarded()) end_program(plugin_of_this_thread(), "quick_exit", kDone);
}

// The signal stays blocked until this returns, and has its default action by then (SA_RESETHAND).
void on_crash(int signal) {
  if (is_guarded()) {
    const char* plugin = plugin_of_this_thread();
    const char* name = ::sigabbrev_np(signal);
    RawLine line;
    line << "kinora: killed by signal " << signal << " (SIG" << (name ? name : "?") << ")";
    if (plugin && !is_own(plugin))
      line << " in plugin " << plugin << "; " << kRemedy;
    else
      line << ", and no plugin of another maker was being called"
           << (plugin ? " (nearest on the stack: " : "") << (plugin ? plugin : "") << (plugin ? ")" : "")
           << ". If one works in this process, it may have damaged memory before: run its stages apart, "
              "isolate = "
              "[\"all\"] of engine/local. Otherwise please report this as a bug\n";
    line.print();
  }
  ::raise(signal);
}

void watch_crashes() {
  void* frame = nullptr;
  ::backtrace(&frame, 1);  // the first call loads a library, which a signal handler must not do
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) {
    struct sigaction before {};
    if (::sigaction(signal, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_handler = on_crash;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace

// Registered handlers run in the reverse order: this one before destructors of the program's own libraries,
// whose threads still run.
EndGuard::EndGuard() {
  static const bool once = [] {
    std::error_code none;
    const auto program = std::filesystem::canonical("/proc/self/exe", none);
    const std::string own = (program.parent_path().parent_path() / "lib/kinora/plugins/").string();
    std::strncpy(own_plugins, own.c_str(), sizeof own_plugins - 1);
    ::on_exit(on_exit_called, nullptr);
    ::at_quick_exit(on_quick_exit);
    watch_crashes();
    return true;
  }();
  guarded_process = once ? ::getpid() : 0;
}

EndGuard::~EndGuard() { guarded_process = 0; }

}  // namespace kinora

// No handler runs at _exit(), so the program has its own, which all libraries that it opens call.
extern "C" __attribute__((visibility("default"))) void _exit(int status) {
  using namespace kinora;
  const char* plugin = is_guarded() ? plugin_at(__builtin_return_address(0)) : nullptr;
  if (plugin) end_program(plugin, "_exit", status);
  end_now(status);
}
extern "C" __attribute__((visibility("default"), alias("_exit"))) void _Exit(int status) noexcept;
