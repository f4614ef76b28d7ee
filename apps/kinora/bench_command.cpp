// kinora bench: the program kinora-bench, which a build of the source has and an installation does not.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <regex>
#include <unistd.h>

#include "apps/kinora/command.hpp"
#include "apps/kinora/commands.hpp"
#include "core/base/paths.hpp"

namespace kinora {
namespace {

constexpr const char* kRemedy =
    "in Kinora's source, build it by bash packaging/dev.sh build kinora-bench, and run build/dev/bin/kinora "
    "bench";

std::filesystem::path bench_program() { return core::executable_folder() / "kinora-bench"; }

// The text of `kinora-bench --help`; "": there is no such program.
std::string bench_help() {
  if (!has_bench()) return "";
  const std::string call = shell_quoted(bench_program().string()) + " --help";
  const std::unique_ptr<FILE, int (*)(FILE*)> from(::popen(call.c_str(), "r"), ::pclose);
  std::string out;
  char part[4096];
  for (size_t n; from && (n = std::fread(part, 1, sizeof part, from.get())) > 0;) out.append(part, n);
  return out;
}

// The two groups of each match of the pattern in the help.
std::vector<std::pair<std::string, std::string>> in_help(const char* pattern) {
  const std::string help = bench_help();
  const std::regex expression(pattern, std::regex::ECMAScript | std::regex::multiline);
  std::vector<std::pair<std::string, std::string>> out;
  for (std::sregex_iterator at(help.begin(), help.end(), expression), end; at != end; ++at)
    out.emplace_back((*at)[1], (*at)[2]);
  return out;
}

}  // namespace

bool has_bench() { return ::access(bench_program().c_str(), X_OK) == 0; }

std::vector<std::string> bench_names() {
  std::vector<std::string> out;
  for (auto& [name, rest] : in_help("^  ([a-z_]+)(?:  |$)()")) out.push_back(std::move(name));
  return out;
}

Flags bench_flags() {
  Flags out("options");
  for (const auto& [name, value] : in_help("^  (?:-\\w, )?--([a-z-]+) ?(\\S*)"))
    if (value.empty())
      out.add_options()(name.c_str(), "");
    else
      out.add_options()(name.c_str(), boost::program_options::value<std::string>()->value_name(value), "");
  if (!has_bench()) out.add_options()("help", "");
  return out;
}

// The program replaces this one, so its exit code and what Ctrl-C does are its own.
int bench_command(core::Runtime&, const Arguments& flags, const Arguments& arguments) {
  const auto program = bench_program();
  Arguments words{program.string()};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(program.c_str(), pointers.data());
  if (errno != ENOENT)
    return complain(kFailed, "bench: " + program.string() + ": cannot be started: " + std::strerror(errno));
  for (const auto& word : arguments)
    if (word == "--help" || word == "-h") {
      std::cout << "usage: kinora bench [NAME] [options]\n\nMeasures this machine and prints a table per "
                   "benchmark, with --json one line of JSON.\n\nThe benchmarks are the program kinora-bench, "
                   "which is not here, and which no installation has:\n"
                << wrapped(kRemedy + std::string("; with --help it lists the benchmarks."), 0, 0) << "\n";
      return kDone;
    }
  return complain(
      kFailed, "bench: " + program.string() + ": no such program, as an installation has none; " + kRemedy);
}

}  // namespace kinora
