// What the commands of the program share.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/run/run_file.hpp"
#include "core/runtime.hpp"

namespace kinora {

constexpr int kDone = 0, kFailed = 1, kUsage = 2, kInterrupted = 130;

using Arguments = std::vector<std::string>;

// The flags before the command, which all commands understand.
struct Globals {
  core::RuntimeOptions runtime;
};

// One line on stderr, "kinora: ...", and the exit code.
int complain(int code, const std::string& message);

// Reads a run file and the --set overrides; prints every problem. Nothing if there was one. whole: with what
// is wrong with any job, though it may be finished.
std::optional<core::RunFile> load_run(core::Runtime&, const std::string& file,
                                      const std::vector<std::string>& sets, bool whole = false);

// The output folder of `run` with these arguments; as load_run if there is none.
std::optional<std::filesystem::path> run_folder(core::Runtime&, const Arguments& of_run);

int run_command(core::Runtime&, const Arguments&);
int check_command(core::Runtime&, const Arguments&);
int apply_command(core::Runtime&, const Arguments&);
int convert_command(core::Runtime&, const Arguments&);
int inspect_command(core::Runtime&, const Arguments&);
int bench_command(core::Runtime&, const Arguments&);
int generate_command(core::Runtime&, const Arguments&);
// shared: the flags before the command, which every rank gets too.
int launch_command(core::Runtime&, const Arguments& shared, const Arguments&);
int plan_command(core::Runtime&, const Arguments&);
int completion_command(const Arguments&);

}  // namespace kinora
