// One check of `kinora plugins validate` in a process of its own.
#pragma once
#include <string>

#include "apps/validate/check.hpp"

namespace kinora {

struct Verdict {
  enum class Kind { ok, failed, skipped } kind = Kind::failed;
  std::string message;  // of a success: a note, or ""
};

// Runs the check, of one component or (null) of the library, for at most `timeout` seconds. The verdict is
// what the child writes: one that ends, crashes or hangs before has failed, whatever its exit code. The
// plugin's output goes to stderr. Throws Error if no process can be started.
Verdict run_check(const Check&, const Subject&, const core::ComponentSpec*, double timeout);

}  // namespace kinora
