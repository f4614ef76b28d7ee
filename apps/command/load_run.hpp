// A run file with its overrides, read and checked as every user of run files does it: the program, and
// programs that embed Kinora.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/run/run_file.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora {

// Document::set(), whose error for one of two experts, for which one table stands, names the table's job.
core::Status set_value(core::Document&, const std::string& assignment);

// Applies the overrides (--set), warns of plugins that hide others, and configures the storages. If a
// plugins.lock is next to `file`, only the plugins in it are opened from now on. ranks: also checks every
// job, even a finished one, for a launch of that many ranks; 0: for any number. Problems are added to
// `problems`; the run must not be run if there are any. only: as for core::read_run().
core::RunFile load_run(core::Runtime&, core::Document&, const std::string& file,
                       const std::vector<std::string>& sets, std::optional<int64_t> ranks,
                       std::vector<core::Diagnostic>& problems, const std::string& only = "");

}  // namespace kinora
