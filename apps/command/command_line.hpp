// The parts that several commands share: exit codes, messages, run files with their --set overrides, and the
// options that --set gives to one component.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/plugin/registry.hpp"
#include "core/run/run_file.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora {

constexpr int kDone = 0, kFailed = 1, kUsage = 2, kInterrupted = 130;

using Arguments = std::vector<std::string>;

// Prints one line on stderr, "kinora: ...", and returns the exit code.
int complain(int code, const std::string& message);

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

// `s` as one word of the shell; shell_word: in quotes only where it needs them.
std::string shell_quoted(const std::string& s);
std::string shell_word(const std::string& s);

}  // namespace kinora
