// Ctrl-C: the first asks the run to stop cleanly, the second ends the process at once.
#pragma once

namespace kinora::core {

// Installs the handlers for SIGINT and SIGTERM. Once, in main().
void watch_signals();
// [any-thread] Whether the run was asked to stop.
bool cancelled();
// [any-thread] As if a signal had come (tests, servers).
void cancel(bool on = true);

}  // namespace kinora::core
