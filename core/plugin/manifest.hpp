// plugin.toml: the declaration of a plugin, read before it is opened. sdk/include/kinora/options.hpp
// (Describe) writes the [[component]] entries, generate_manifest() the whole.
//
//   [plugin]
//   manifest = 1             # the format of this file; without it: 1
//   name = "samplers-edm"
//   version = "0.1.0"
//   abi = "1.0"              # major, and the oldest minor that it needs
//   tier = "stable"          # pinned: with torch = "==2.11.0", cxx_abi = "1", and cuda = "13.0" if it needs CUDA
//   [[component]]
//   id = "sampler/edm-heun"
//   help = "EDM's Heun sampler, order 2"
//   interface = "kinora.model/1-draft.1"    # of a kind whose interface is a draft: the one it was built for
//   draws = true             # what a stage makes depends on the run's seed
//   results = 2              # raised when the same options and inputs give other results; without it: 1
//   input.noise = { shape = "[B, ...]", dtype = "float64" }
//   input.mask = { shape = "[B]", dtype = "bool", optional = true }    # the component works without it
//   output.frames = { shape = "[T, H, W, 3]", dtype = "uint8", per = "clip", when = "sample_fps" }
//   score."glow" = { title = "Glow", unit = "cd" }              # of a stage that notes the score "glow"
//   layout.diffusers = { help = "as diffusers saves it" }      # of a model or tokenizer
//   option.steps = { type = "int", default = 35, min = 1, max = 1000, unit = "steps", help = "intervals of the grid" }
//   option.at_most = { type = "float", default = 1e300, bound = true, help = "largest score that passes" }
//   option.threads = { type = "int", default = 0, how_only = true }    # no part of what comes of it
//   option.heads = { type = "int", default = 6, config = ["num_attention_heads"] }   # in a published config.json
//
// A manifest for a later Kinora of the same format stays readable: an unknown key is ignored with a warning,
// and a component of an unknown kind, with an option of an unknown type, a tensor of an unknown dtype or shape
// (tensor_rules.hpp) or for another draft is unusable, alone.
//
// A job (tier "host", with kinora = "==0.1.0") also says what it reads and which components it is made of:
//   id = "job/train"
//   reads = ["encode"]       # kinds of jobs whose results it reads; "path": files. Empty: every other job of the run
//   needs_input = false
//   tensors = true           # libtorch is opened before the library
//   draws = false            # its results do not depend on the run's seed, unless a stage of it draws
//   slot.model = { kind = "model", required = true, weights = "weights", help = "network that is trained" }
//   slot.sampler = { kind = "sampler", default = "edm-heun", from = "distill" }   # an input of that kind has another
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/status.hpp"
#include "kinora/abi/plugin.h"

namespace kinora::core {

using json = nlohmann::json;

enum class OptionType { integer, size, real, boolean, string, path, integers, reals, strings, paths };

// The manifest's word for it: "int", "size", "float", "bool", "string", "path", "ints", "floats", "strings",
// "paths".
const char* type_name(OptionType type);

struct OptionSpec {
  std::string name;
  OptionType type = OptionType::string;
  json default_value;                            // has the type; for a required option only an example
  std::optional<double> min, max, above, below;  // of each item; above and below are exclusive
  std::string unit, help;
  std::vector<std::string> choices;  // of each item; empty: any
  bool required = false;
  bool how_only = false;  // results do not depend on it
  bool is_bound = false;  // a sample outside of it is dropped; see no_bound()
  // Where a published config.json has the option, if not under its own name; the first line that finds a
  // value counts. A line is a key, with "vision_config.sizes[0]" for a nested one; or "key ?? 768", which is
  // 768 if the object that would hold the key lacks it; or "key == word", which is true or false.
  std::vector<std::string> config;
};

// A bound of 1e300 or -1e300 drops nothing.
bool no_bound(const json& value);

struct TensorSpec {
  std::string name, shape, dtype, help;
  // "clip": the stage cuts its sample into clips and each of them gets this tensor. Empty: the sample itself.
  std::string per;
  // An option of the component. The tensor is made or read only while the option has the value; an empty
  // value means any except 0, false and "". No option: always.
  std::string when, when_value;
  bool is_optional = false;  // of an input: the component works without it

  // The shapes that the tensor may have, each as the names or sizes of its axes: "[B] or [B, F]" is {{"B"},
  // {"B", "F"}}. Empty for a tensor without a stated shape ("" or "[...").
  std::vector<std::vector<std::string>> shapes() const;
  // Whether the tensor is made or read with these options of the component.
  bool is_in_use(const json& options) const;
};

// How a score that a stage notes is shown.
struct ScoreSpec {
  std::string name, title, unit;
};

// A naming scheme of published weights (kinora/abi/layout.h).
struct LayoutSpec {
  std::string name, help;
};

// A place for a component in a job: sampler = { use = "edm-heun", steps = 20 }.
struct Slot {
  std::string name;       // key in the TOML
  std::string kind;       // kind of component: "sampler"
  std::string use{};      // default component; empty: none
  bool required = false;  // the TOML or the default must name one
  bool list = false;      // stages = [ ... ]
  std::string help{};
  bool how_only = false;  // the job's results do not depend on it
  // The job's option that names its weights; a config.json there completes the component's options.
  std::string weights{};
  std::string from{};  // kind of a direct input whose own component replaces the default; empty: none
};

// A model whose forward must not be recorded as a CUDA graph.
inline constexpr const char* kNeedsEager = "eager";

struct ComponentSpec {
  std::string id, kind, name, help;   // id = kind/name
  std::string interface {};           // the manifest's; empty: the only one of its kind
  std::string unusable{};             // why it cannot be used here, and what to do; empty: it can
  std::vector<std::string> formerly;  // names that it had before
  std::vector<std::string> needs;     // what a host must understand to use it: kNeedsEager
  std::vector<OptionSpec> options;    // in the manifest's order, like inputs and outputs
  std::vector<TensorSpec> inputs, outputs;
  std::vector<ScoreSpec> scores;    // of a stage
  std::vector<LayoutSpec> layouts;  // of a model or tokenizer
  bool draws = false;               // of a stage or job: its results depend on the run's seed
  // Part of the identity of jobs that use it, instead of its plugin's version.
  int64_t results = 1;
  // For a job.
  std::vector<Slot> slots;
  std::vector<std::string> reads;  // kinds of jobs whose output it reads; "path": files
  bool needs_input = true;
  bool has_tensors = false;  // its library requires libtorch
  // Whether all ranks of a launch work on the job; any other job runs only on rank 0.
  bool is_spread() const;

  const OptionSpec* option(std::string_view name) const;  // null: there is none
};

enum class Tier { stable, pinned, host };
const char* tier_name(Tier tier);

struct PluginSpec {
  std::string name, version;
  uint32_t abi_major = 1, abi_minor = 0;
  Tier tier = Tier::stable;
  std::string torch, cxx_abi, cuda;  // pinned: "2.11.0", "1", and "13.0" or empty
  std::string kinora;                // host: the only version of Kinora that it works with
  std::vector<ComponentSpec> components;
  std::vector<std::string> warnings;  // "FILE:LINE:COL: unknown key ...", in the file's order

  const ComponentSpec* component(std::string_view id) const;  // null: there is none
};

// The format of plugin.toml that this host reads and writes.
inline constexpr int64_t kManifestFormat = 1;

// Every error of the text, one per line, each FILE:LINE:COL: what is wrong and what is right.
Result<PluginSpec> parse_manifest(std::string_view text, std::string_view file);

// The members of [plugin] that the library itself does not know.
struct TierFields {
  Tier tier = Tier::stable;
  std::string torch, cxx_abi, cuda, kinora;
};

// The up-to-date plugin.toml of an open plugin: [plugin], then each component's describe().
Result<std::string> generate_manifest(const kinora_plugin* plugin, const TierFields& tier);

}  // namespace kinora::core
