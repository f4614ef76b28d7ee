// What a plugin must leave as it found it, and what becomes of it if it does not: the modes of floating-point
// arithmetic, the umask, the handlers of signals.
#pragma once

namespace kinora {

// For main(), once: installs the handlers of signals (core/base/cancel.hpp) and remembers what this process has now.
// After every call of a plugin, what differs from then is put back, on its thread and in the process; the first time
// for each thing a warning names the plugin or component. A program that embeds Kinora owns these things itself.
void own_process();

}  // namespace kinora
