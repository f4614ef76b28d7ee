// A plugin must leave these as it found them: the modes of floating-point arithmetic, the umask, the working
// directory, the handlers of signals. This file says what happens if it does not.
#pragma once

namespace kinora {

// For main(), once: installs the handlers of signals (core/base/cancel.hpp) and remembers what this process has now.
// After every call of a plugin, what differs from then is put back, on its thread and in the process; the first time
// for each thing a warning names the plugin or component.
void own_process();

// The same for a program that embeds Kinora, while this lives, but for the handlers of signals and the working
// directory, which are its own.
// The umask is put back to what it was at the beginning, and the modes to those of the thread that began, or of the
// thread's own ThreadModes.
class KeptSurroundings {
 public:
  KeptSurroundings();
  KeptSurroundings(const KeptSurroundings&) = delete;
  KeptSurroundings& operator=(const KeptSurroundings&) = delete;
  ~KeptSurroundings();
};

// A call of a thread of the program's own, whose modes may be others.
class ThreadModes {
 public:
  ThreadModes();
  ThreadModes(const ThreadModes&) = delete;
  ThreadModes& operator=(const ThreadModes&) = delete;
  ~ThreadModes();

 private:
  const unsigned modes_;
  const unsigned* const outer_;
};

}  // namespace kinora
