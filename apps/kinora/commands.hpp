// The tables of the program's commands and of its flags: `kinora --help`, completion and the man page come from
// them.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/command/command_line.hpp"
#include "apps/command/flags.hpp"

namespace kinora {

// A part of a command with flags of its own: kinora data index.
struct Subcommand {
  const char* name;
  const char* takes;
  Flags (*flags)();
  int (*run)(core::Runtime&, const Arguments&);
};

struct Command {
  const char* name;
  const char* takes;  // its arguments, "FILE.toml"
  const char* help;   // what it does; its parts follow
  Flags (*flags)();   // null: each of its parts has its own
  int (*run)(core::Runtime&, const Arguments&);
  // In place of run, for a command that starts programs: it also receives the flags before the command.
  int (*start)(core::Runtime&, const Arguments& flags, const Arguments&) = nullptr;
  std::span<const Subcommand> (*parts)() = nullptr;
};

std::vector<const Command*> commands();
// Null: there is none.
const Command* find_command(std::string_view name);
// Whether help and completion show it: all but `bench` of an installation without kinora-bench.
bool is_offered(const Command&);
// A line or two for each of those, under the name of its task.
std::string commands_help();

// The flags before a command.
std::vector<Flag> program_flags();
inline const std::vector<std::string> kLogLevels{"trace", "debug", "info", "warn", "error", "off"};
inline const std::vector<std::string> kShells{"bash", "zsh", "fish"};

std::span<const Subcommand> data_parts();
std::span<const Subcommand> plugins_parts();

// The benchmarks that kinora-bench has; none without it.
std::vector<std::string> bench_names();

}  // namespace kinora
