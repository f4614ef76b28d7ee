// A run file with its overrides, read and checked as every user of run files does it: the program, and
// programs that embed libkinora.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/run/run_file.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora::core {

// Applies the overrides (--set), warns of plugins that hide others, and configures the storages. If a
// plugins.lock is next to `file`, only the plugins in it are opened from now on. ranks: also checks every
// job, even a finished one, for a launch of that many ranks; 0: for any number. Problems are added to
// `problems`; the run must not be run if there are any. only: as for read_run().
RunFile load_run(Runtime&, Document&, const std::string& file, const std::vector<std::string>& sets,
                 std::optional<int64_t> ranks, std::vector<Diagnostic>& problems,
                 const std::string& only = "");

}  // namespace kinora::core
