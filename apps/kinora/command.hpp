// What the commands of the program share.
#pragma once
#include <string>
#include <vector>

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

int run_command(core::Runtime&, const Arguments&);
int check_command(core::Runtime&, const Arguments&);
int apply_command(core::Runtime&, const Arguments&);
int convert_command(core::Runtime&, const Arguments&);
int inspect_command(core::Runtime&, const Arguments&);
int bench_command(core::Runtime&, const Arguments&);
int completion_command(const Arguments&);

}  // namespace kinora
