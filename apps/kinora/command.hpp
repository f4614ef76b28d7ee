// Functions that the program's commands share.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/run/run_file.hpp"
#include "core/run/runner.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora {

constexpr int kDone = 0, kFailed = 1, kUsage = 2, kInterrupted = 130;

using Arguments = std::vector<std::string>;

// The flags before the command, which every command accepts.
struct Globals {
  core::RuntimeOptions runtime;
};

// Prints one line on stderr, "kinora: ...", and returns the exit code.
int complain(int code, const std::string& message);

// kDone if there is a command of this name, else prints a message and returns its code.
int require_command(const std::string& name);

// Reads a run file and applies the --set overrides; prints every problem. Nothing if there was one. ranks: also checks
// every job, even a finished one, for a launch of that many ranks; 0: for any number.
std::optional<core::RunFile> load_run(core::Runtime&, const std::string& file,
                                      const std::vector<std::string>& sets,
                                      std::optional<int64_t> ranks = {});

// The same for a document that is already read; messages call it `file`.
std::optional<core::RunFile> load_run(core::Runtime&, core::Result<core::Document>, const std::string& file,
                                      const std::vector<std::string>& sets,
                                      std::optional<int64_t> ranks = {});

// Parses the arguments of `run` into a file and options; fails as load_run does.
struct AskedRun {
  core::RunFile file;
  core::RunOptions options;
};
std::optional<AskedRun> asked_run(core::Runtime&, const Arguments& of_run);

int run_command(core::Runtime&, const Arguments&);
int check_command(core::Runtime&, const Arguments&);
int apply_command(core::Runtime&, const Arguments&);
int convert_command(core::Runtime&, const Arguments&);
int inspect_command(core::Runtime&, const Arguments&);
int bench_command(core::Runtime&, const Arguments&);
int generate_command(core::Runtime&, const Arguments&);
int search_command(core::Runtime&, const Arguments&);
// shared: the flags before the command, which every rank gets too.
int launch_command(core::Runtime&, const Arguments& shared, const Arguments&);
int plan_command(core::Runtime&, const Arguments&);
int studio_command(core::Runtime&, const Arguments&);
int completion_command(const Arguments&);

}  // namespace kinora
