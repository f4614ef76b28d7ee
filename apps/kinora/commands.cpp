#include "apps/kinora/commands.hpp"

#include <fmt/ranges.h>

#include "apps/kinora/command.hpp"

namespace kinora {
namespace {

int plugins(core::Runtime& runtime, const Arguments& arguments) {
  return plugins_command(runtime, arguments);
}

constexpr Command kMake[] = {
    {"curate", "FOLDER", "make a folder of videos into good clips, shards and a report, in one command",
     curate_flags, curate_command},
    {"init", "FOLDER", "write the run file that fits a folder: videos, shards, a run, a published model",
     init_flags, init_command},
    {"run", "FILE.toml", "run the jobs of a file; resume unfinished ones", run_flags, run_command},
    {"check", "FILE.toml...", "print every error of run files at once, with its place and a suggestion",
     check_flags, check_command},
    {"launch", "-n N -- run ...",
     "the same as run on N ranks of this machine; torchrun, srun and mpirun start `run` themselves",
     launch_flags, nullptr, launch_command},
    {"plan", "FILE.toml", "find the parallel layout for a cluster, its memory and time per step, and why",
     plan_flags, plan_command}};

constexpr Command kLook[] = {
    {"studio", "DIR", "serve a local page to browse clips, edit captions, keep and reject", studio_flags,
     studio_command},
    {"search", "DIR TEXT", "find the clips nearest to a text, or to a clip with --like CLIP", search_flags,
     search_command},
    {"data", "PART PATH", "folders of WebDataset shards", nullptr, data_command, nullptr, data_parts}};

constexpr Command kVideos[] = {
    {"generate", "FILE.toml", "make a video with the networks of a run: --prompt, --image, --from VIDEO",
     generate_flags, generate_command},
    {"serve", "--pipeline D", "make videos for programs that ask over HTTP, shown while they grow",
     serve_flags, serve_command}};

constexpr Command kComponents[] = {
    {"plugins", "[PART]", "components and their plugins", nullptr, plugins, nullptr, plugins_parts},
    {"apply", "ID [INPUT]", "run one component alone on one input", apply_flags, apply_command},
    {"inspect", "ID|FOLDER|FILE",
     "print parameters, bytes and operations of a model or tokenizer without creating it", inspect_flags,
     inspect_command},
    {"convert", "IN OUT", "convert weights: one file or shards, naming schemes, dtypes, adapters",
     convert_flags, convert_command},
    {"bench", "[BENCHMARK]", "measure this machine: a table, or --json; in a build of the source only",
     bench_flags, nullptr, bench_command},
    {"completion", "SHELL", "print a script for bash, zsh or fish: source <(kinora completion bash)",
     completion_flags, completion_command}};

// Commands by what they are for.
struct Task {
  const char* name;
  std::span<const Command> commands;
};
constexpr Task kTasks[] = {{"curate, shard, train", kMake},
                           {"look at clips and shards", kLook},
                           {"make videos", kVideos},
                           {"components, weights, this machine", kComponents}};

}  // namespace

std::vector<const Command*> commands() {
  std::vector<const Command*> out;
  for (const auto& task : kTasks)
    for (const auto& command : task.commands) out.push_back(&command);
  return out;
}

const Command* find_command(std::string_view name) {
  for (const auto* command : commands())
    if (command->name == name) return command;
  return nullptr;
}

bool is_offered(const Command& command) { return command.name != kBench || has_bench() || !is_installed(); }

namespace {

std::string command_help(const Command& command) {
  constexpr size_t kWidth = 22, kColumn = kWidth + 3;
  const std::string call = std::string(command.name) + (*command.takes ? " " : "") + command.takes;
  std::string help = command.help;
  std::vector<std::string_view> parts;
  if (command.parts)
    for (const auto& part : command.parts()) parts.emplace_back(part.name);
  if (!parts.empty()) help += fmt::format(": {}", fmt::join(parts, ", "));
  std::string out = fmt::format("  {:<{}} {}\n", call, kWidth, wrapped(help, kColumn, kColumn));
  if (command.run == generate_command)
    out += fmt::format(
        "  {:<{}} {}\n", "generate --pipeline D", kWidth,
        wrapped("the same with a published model in folder D, without a run file", kColumn, kColumn));
  return out;
}

}  // namespace

std::string commands_help() {
  std::string out;
  for (const auto& task : kTasks) {
    out += fmt::format("{}{}:\n", out.empty() ? "" : "\n", task.name);
    for (const auto& command : task.commands)
      if (is_offered(command)) out += command_help(command);
  }
  return out;
}

std::vector<Flag> program_flags() {
  return {{.name = "--plugins", .value = "DIR", .repeats = true},
          {.name = "--plugins-lock", .value = "FILE"},
          {.name = "--log", .value = "LEVEL"},
          {.name = "--version"},
          {.name = "--help"}};
}

}  // namespace kinora
