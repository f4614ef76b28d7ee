// What the commands of the program share.
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

// The flags before the command, which all commands understand.
struct Globals {
  core::RuntimeOptions runtime;
};

// One line on stderr, "kinora: ...", and the exit code.
int complain(int code, const std::string& message);

// kDone if there is a command of this name, else complains.
int require_command(const std::string& name);

// Reads a run file and the --set overrides; prints every problem. Nothing if there was one. ranks: with what
// is wrong with any job, though it may be finished, in a launch of so many; 0: of any number.
std::optional<core::RunFile> load_run(core::Runtime&, const std::string& file,
                                      const std::vector<std::string>& sets,
                                      std::optional<int64_t> ranks = {});

// The same of a document that is read; `file` is what messages call it.
std::optional<core::RunFile> load_run(core::Runtime&, core::Result<core::Document>, const std::string& file,
                                      const std::vector<std::string>& sets,
                                      std::optional<int64_t> ranks = {});

// What `run` with these arguments is to do; as load_run if that cannot be.
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
