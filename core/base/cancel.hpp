// Ctrl-C: the first asks the run to stop cleanly, the second ends the process at once.
#pragma once

namespace kinora::core {

// Installs the handlers for SIGINT, SIGTERM and SIGUSR1. Call once, in main().
void watch_signals();
// [any-thread] Whether the run was asked to stop.
bool cancelled();
// [any-thread] Acts as if a signal had arrived (for tests and servers).
void cancel(bool on = true);
// [any-thread] Whether SIGUSR1 has requested a checkpoint since the last call.
bool take_save_request();
// [any-thread] Acts as if that signal had arrived.
void request_save();

}  // namespace kinora::core
