// The commands of the program, and what they share: messages, run files with their --set overrides, and the
// options that --set gives to one component.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/plugin/registry.hpp"
#include "core/run/apply.hpp"
#include "core/run/run_file.hpp"
#include "core/run/runner.hpp"
#include "core/run/source_instance.hpp"
#include "core/runtime/runtime.hpp"
#include "kinora/sample.hpp"

namespace kinora {

constexpr int kDone = 0, kFailed = 1, kUsage = 2, kInterrupted = 130;

using Arguments = std::vector<std::string>;

// The flags before the command, which every command accepts.
struct Globals {
  core::RuntimeOptions runtime;
};

// Prints one line on stderr, "kinora: ...", and returns the exit code.
int complain(int code, const std::string& message);

// The text with the path of quickstart.toml, where it is installed, in place of configs/quickstart.toml.
std::string with_quickstart(std::string text);

// kDone if there is a command of this name, else prints a message and returns its code.
int require_command(const std::string& name);

// Reads a run file and applies the --set overrides; prints every problem. Nothing if there was one. ranks:
// also checks every job, even a finished one, for a launch of that many ranks; 0: for any number. only: the job
// that alone will run, with those that it depends on; problems of the others are left out.
std::optional<core::RunFile> load_run(core::Runtime&, const std::string& file,
                                      const std::vector<std::string>& sets, std::optional<int64_t> ranks = {},
                                      const std::string& only = "");

// The same for a document that is already read; messages call it `file`.
std::optional<core::RunFile> load_run(core::Runtime&, core::Result<core::Document>, const std::string& file,
                                      const std::vector<std::string>& sets, std::optional<int64_t> ranks = {},
                                      const std::string& only = "");

// Parses the arguments of `run` into a file and options; fails as load_run does.
struct AskedRun {
  core::RunFile file;
  core::RunOptions options;
};
std::optional<AskedRun> asked_run(core::Runtime&, const Arguments& of_run);

// --set NAME=VALUE of apply, inspect, convert and plugins check-parallel, and the options that a published
// configuration adds to it.
struct SetOption {
  std::string name;
  nlohmann::json value;  // as parsed by TOML, else a string
  std::string text;      // the value as a path or word
};
// Throws kinora::Error(KINORA_ERROR_INVALID).
SetOption parse_set(const std::string& text);

// Adds the members of the configuration that `options` lacks. config: a file or folder, or "": the
// configuration stored with the weights (core::with_weights).
void complete_options(core::Registry& registry, const core::ComponentSpec& spec, const std::string& config,
                      const std::string& weights, nlohmann::json& options);

// The options of --set, `config=` included, completed.
nlohmann::json options_of(core::Registry& registry, const core::ComponentSpec& spec,
                          const std::vector<std::string>& sets, const std::string& weights = "");

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

// kinora data PART, and its part `order`, which has its own flags.
int data_command(core::Runtime&, const Arguments&);
int data_order(core::Runtime&, const Arguments&);

// kinora plugins SUBCOMMAND, and its subcommands, each with its own flags.
int plugins_command(core::Runtime& runtime, std::vector<std::string> arguments);
int plugins_list(core::Runtime&, const Arguments&);
int plugins_inspect(core::Runtime&, const Arguments&);
int plugins_validate(core::Runtime&, const Arguments&);
int plugins_manifest(core::Runtime&, const Arguments&);
int plugins_new(core::Runtime&, const Arguments&);
int plugins_check_parallel(core::Runtime&, const Arguments&);
int plugins_lock(core::Runtime&, const Arguments&);

// `kinora apply` of a stage: one file in, the samples that the stage makes of it out. request.out: a folder
// for the samples' fields; empty: none are written. Throws Error.
core::ApplyResult apply_stage(core::Runtime&, const core::ApplyRequest& request);

// `kinora apply` of a source: its samples, with the sizes of their fields.
struct SourceRequest {
  core::SourcePart part;
  uint64_t limit = 0;           // most samples; 0: all
  std::filesystem::path state;  // position that the samples come after, if the file exists; gets the new one
};
// Throws Error.
core::ApplyResult apply_source(core::Runtime&, const core::ApplyRequest&, const SourceRequest&);

// Writes the sample's fields but `url` to FOLDER/KEY.FIELD. Throws Error.
void write_fields(const std::filesystem::path& folder, const Sample&);

}  // namespace kinora
