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
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <sys/syscall.h>

#include "apps/kinora/command.hpp"
#include "core/plugin/library.hpp"
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

// The component in whose table this function is; null: none, or several.
const char* component_with(const void* function) {
  constexpr size_t kMostSlots = 64;
  const char* found = nullptr;
  for (const auto* opened = core::opened_plugins(); opened; opened = opened->before)
    for (uint32_t i = 0; i < opened->plugin->n_components; ++i) {
      const kinora_component& c = core::component_at(*opened->plugin, i);
      if (!c.api) continue;
      const size_t slots = std::min(*static_cast<const uint32_t*>(c.api) / sizeof(void*), kMostSlots);
      const auto* table = static_cast<const void* const*>(c.api);
      if (std::find(table, table + slots, function) == table + slots) continue;
      if (found && found != c.id) return nullptr;
      found = c.id;
    }
  return found;
}

// The functions that this thread has called and that have not returned, the last one first.
class Stack {
 public:
  Stack() : size_(::backtrace(frames_, kMost)) {}
  // The stack at a signal. No unwinder passes an address that is in no function, where a call of a wild pointer leads:
  // then only the caller is known.
  explicit Stack(const ucontext_t& at) {
#if defined(__x86_64__)
    auto* code = reinterpret_cast<char*>(at.uc_mcontext.gregs[REG_RIP]);
    void* const* caller = reinterpret_cast<void* const*>(at.uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
    auto* code = reinterpret_cast<char*>(at.uc_mcontext.pc);
    void* const* caller = reinterpret_cast<void* const*>(&at.uc_mcontext.regs[30]);
#else
    auto* code = reinterpret_cast<char*>(&plugin_at);
    void* const* caller = nullptr;
#endif
    if (::_Unwind_FindEnclosingFunction(code + 1))  // it looks before a return address
      size_ = ::backtrace(frames_, kMost);
    else
      frames_[size_++] = *caller;
  }
  // The plugin whose code runs: the nearest one, of another maker if there is one; null if none does. The nearest of
  // Kinora's own says little: a job and an engine are on the stack of whatever a run does.
  const char* plugin() const {
    const char* own = nullptr;
    for (int i = 0; i < size_; ++i)
      if (const char* path = plugin_at(frames_[i])) {
        if (!is_own(path)) return path;
        if (!own) own = path;
      }
    return own;
  }
  // The component of this plugin that was called; null: not known, as in a thread of the plugin's own.
  const char* component_of(const char* plugin) const {
    for (int i = 0; i < size_; ++i)
      if (plugin_at(frames_[i]) == plugin)
        if (const char* id = component_with(::_Unwind_FindEnclosingFunction(frames_[i]))) return id;
    return nullptr;
  }
  // Whether it goes back to where the program or the C library started the thread, so that no call is missing.
  bool is_whole() const {
    dl_find_object first{}, program{}, library{};
    ::_dl_find_object(reinterpret_cast<void*>(&plugin_at), &program);
    ::_dl_find_object(reinterpret_cast<void*>(&::raise), &library);
    return size_ < kMost && ::_dl_find_object(frames_[size_ - 1], &first) == 0 &&
           (first.dlfo_link_map == program.dlfo_link_map || first.dlfo_link_map == library.dlfo_link_map);
  }

 private:
  static constexpr int kMost = 128;
  void* frames_[kMost];
  int size_ = 0;
};

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
  if (is_guarded()) end_program(Stack().plugin(), "exit", status);
}

// The status is not known here.
void on_quick_exit() {
  if (is_guarded()) end_program(Stack().plugin(), "quick_exit", kDone);
}

// "plugin /plugins/a/liba.so (stage/a)": what was being called.
void write_called(RawLine& line, const char* plugin, const Stack& stack) {
  const char* component = stack.component_of(plugin);
  line << "plugin " << plugin << (component ? " (" : ", in which component is not known")
       << (component ? component : "") << (component ? ")" : "");
}

// The signal stays blocked until this returns, and has its default action by then (SA_RESETHAND).
void on_crash(int signal, siginfo_t*, void* context) {
  if (is_guarded()) {
    const Stack stack(*static_cast<const ucontext_t*>(context));
    const char* plugin = stack.plugin();
    const char* name = ::sigabbrev_np(signal);
    RawLine line;
    line << "kinora: killed by signal " << signal << " (SIG" << (name ? name : "?") << ")";
    if (plugin && !is_own(plugin)) {
      line << " in ";
      write_called(line, plugin, stack);
      line << "; " << kRemedy;
    } else {
      line << (stack.is_whole() ? ", and no plugin of another maker was being called"
                                : ", and it is not known what was being called");
      if (plugin) {
        line << "; nearest on the stack: ";
        write_called(line, plugin, stack);
      }
      line
          << ". If a plugin of another maker works in this process, it may have damaged memory before: run "
             "its stages apart, isolate = [\"all\"] of engine/local. Otherwise please report this as a bug\n";
    }
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
    action.sa_sigaction = on_crash;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_SIGINFO);
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
