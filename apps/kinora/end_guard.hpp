// The program's message when code of a plugin ends its process, so that nothing ends silently with exit code 0.
#pragma once

namespace kinora {

// While one lives, in the process that made it:
// - exit(), quick_exit() and a plugin's _exit() print one line that names the plugin on the stack, and end
//   the program with code 1;
// - SIGSEGV, SIGABRT, SIGBUS, SIGFPE and SIGILL print one line with the signal, that plugin and its component that
//   was called, or that it is not known; then the signal's default action follows, with its core dump. A signal that
//   has a handler (a sanitizer's) keeps it.
// A child of fork() without exec() ends as it likes. One object at a time, made before code of plugins runs.
class EndGuard {
 public:
  EndGuard();
  EndGuard(const EndGuard&) = delete;
  EndGuard& operator=(const EndGuard&) = delete;
  ~EndGuard();
};

}  // namespace kinora
