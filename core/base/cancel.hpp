// Ctrl-C: the first asks the run to stop cleanly, the second ends the process at once.
#pragma once

namespace kinora::core {

// Installs the handlers for SIGINT, SIGTERM and SIGUSR1. Once, in main().
void watch_signals();
// [any-thread] Whether the run was asked to stop.
bool cancelled();
// [any-thread] As if a signal had come (tests, servers).
void cancel(bool on = true);
// [any-thread] Whether SIGUSR1 asked for a checkpoint since this was last called.
bool take_save_request();
// [any-thread] As if that signal had come.
void request_save();

}  // namespace kinora::core
