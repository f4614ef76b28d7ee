// kinora inspect ID [--set k=v]... [--input NAME=SHAPE]... [--json], for one component, and kinora inspect
// FOLDER, for a published pipeline: its size, and the command that runs it.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include <boost/program_options.hpp>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/kinora/command.hpp"
#include "apps/kinora/plugins_format.hpp"
#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "core/config/document.hpp"
#include "core/run/run_file.hpp"
#include "core/runtime/tensor_service.hpp"
#include "host/stages/stage_check.hpp"
#include "host/weights/packed_matrix.hpp"
#include "host/weights/published_classes.hpp"
#include "host/weights/scaled_weight.hpp"
#include "host/weights/weights.hpp"
#include "plugins/jobs/published/checkpoint_facts.hpp"
#include "plugins/jobs/published/published_pipeline.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;
using nlohmann::json;

json file_facts(const core::Safetensors& opened) {
  uint64_t parameters = 0, bytes = 0;
  std::set<std::string> dtypes;
  for (const auto& t : opened.tensors()) {
    uint64_t n = 1;
    for (const int64_t size : t.shape) n *= static_cast<uint64_t>(size);
    parameters += n;
    bytes += core::stored_bytes(t);
    dtypes.insert(t.packed   ? "NVFP4"
                  : t.scaled ? std::string(core::name_of(t.scaled->codes.dtype)) + " with scales"
                             : core::name_of(t.dtype));
  }
  return {{"files", opened.files().size()}, {"parameters", parameters}, {"bytes", bytes}, {"dtypes", dtypes}};
}

// Weights of which no file is a damaged one of a checkpoint.
core::Safetensors open_as_listed(const fs::path& path) {
  auto out = core::or_throw(core::Safetensors::open(path));
  for (const auto& file : out.files()) core::require_as_listed(file);
  return out;
}

json part_facts(const core::PublishedPipeline& pipeline, const std::string& name) {
  json out = file_facts(open_as_listed(pipeline.folder / name));
  out["name"] = name;
  out["component"] = pipeline.component(name);
  return out;
}

std::string in_shell(const std::string& path) {
  const bool plain =
      path.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=@%:,") ==
      path.npos;
  if (plain) return path;
  std::string out = "'";
  for (const char c : path) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// The version that wrote the folder. "?" for anything but a short printable text, since the folder may come
// from anyone.
std::string version_in(const json& index) {
  const json said = index.value("_diffusers_version", json());
  const std::string text = said.is_string() ? said.get<std::string>() : "";
  const bool is_plain = !text.empty() && text.size() < 40 &&
                        std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
  return is_plain ? text : "?";
}

// {"pipeline", "written_by", "makes", "begins_with", "parts": [{"name", "component", "files", "parameters",
// "bytes", "dtypes"}], "bytes", "memory": {"weights", "weights_one_expert"}, "defaults": {...}, "command"} of
// a published pipeline. Reads configurations and headers only. Throws Error.
json pipeline_facts(const fs::path& folder) {
  const core::PublishedPipeline pipeline(folder);
  const json options = pipeline.options("generate");
  json parts = json::array();
  uint64_t bytes = 0, memory = 0, second = 0;
  for (const char* name : {"transformer", "transformer_2", "text_encoder", "image_encoder", "vae"}) {
    const bool is_used = name != std::string("transformer_2") ? true : options.contains("weights_2");
    if (!pipeline.has(name) || !is_used) continue;
    parts.push_back(part_facts(pipeline, name));
    const uint64_t held =
        4 * parts.back()["parameters"].get<uint64_t>();  // parameters are float32 in every precision
    bytes += parts.back()["bytes"].get<uint64_t>();
    memory += held;
    if (name == std::string("transformer_2")) second = held;
  }
  json defaults = json::object();
  for (const char* name : {"frames", "height", "width", "fps", "guidance", "guidance_convention", "boundary"})
    if (options.contains(name)) defaults[name] = options[name];
  defaults["sampler"] = options["sampler"];
  const bool picture = !pipeline.from_text_alone;
  return {{"pipeline", pipeline.name},
          {"written_by", version_in(pipeline.index)},
          {"makes", options["frames"] == 1 ? "pictures" : "videos"},
          {"begins_with", picture ? "a text and a picture" : "a text"},
          {"parts", parts},
          {"bytes", bytes},
          {"memory", {{"weights", memory}, {"weights_one_expert", memory - second}}},
          {"defaults", defaults},
          {"command", fmt::format("kinora generate --pipeline {} --prompt \"...\"{}",
                                  in_shell(folder.string()), picture ? " --image PICTURE" : "")}};
}

// Returns the problems that kinora generate would report of this pipeline. Its checks read
// configurations and headers only. The size is one that every published family makes, since the networks are
// checked and not the default size.
std::vector<std::string> pipeline_problems(core::Runtime& runtime, const fs::path& folder) {
  std::string text = fmt::format(
      "[[job]]\nkind = \"generate\"\npipeline = {}\nprompts = [\"text\"]\nframes = 1\nheight = 32\nwidth = "
      "32\n",
      json(folder.string()).dump());
  if (!core::PublishedPipeline(folder).from_text_alone)  // a file that exists; a check opens no picture
    text += "image = " + json((folder / "model_index.json").string()).dump() + "\n";
  const auto document = core::or_throw(core::Document::parse(text, "--pipeline"));
  std::vector<core::Diagnostic> problems;
  const core::RunFile run = core::read_run(document, runtime.registry(), core::with_weights, problems);
  if (problems.empty()) problems = core::check_jobs(runtime, run, 0);
  std::vector<std::string> out;
  for (const auto& p : problems) {
    const std::string job = "job 'generate': ";
    out.push_back(p.message.starts_with(job) ? p.message.substr(job.size()) : p.message);
  }
  return out;
}

std::string pipeline_text(const json& f) {
  const json& d = f["defaults"];
  std::string out = fmt::format("{}, written by diffusers {}: {} of {}\n", f["pipeline"].get<std::string>(),
                                f["written_by"].get<std::string>(), f["makes"].get<std::string>(),
                                f["begins_with"].get<std::string>());
  std::vector<std::vector<std::string>> lines;
  for (const auto& p : f["parts"])
    lines.push_back({p["name"], p["component"],
                     fmt::format("{:.2f} M parameters", p["parameters"].get<double>() / 1e6),
                     core::format_size(p["bytes"].get<uint64_t>()),
                     fmt::format("{}", fmt::join(p["dtypes"].get<std::vector<std::string>>(), " ")),
                     p["files"] == 1 ? "" : fmt::format("{} files", p["files"].get<int64_t>())});
  out += aligned(lines, "  ");
  out +=
      fmt::format("\nmade by default: {} frames of {} x {} (height x width), {} steps of {}, guidance {}\n",
                  d["frames"].get<int64_t>(), d["height"].get<int64_t>(), d["width"].get<int64_t>(),
                  d["sampler"]["steps"].get<int64_t>(), d["sampler"]["use"].get<std::string>(),
                  d["guidance"].get<double>());
  const auto all = f["memory"]["weights"].get<uint64_t>(),
             one = f["memory"]["weights_one_expert"].get<uint64_t>();
  out += fmt::format(
      "memory: {} of weights alone, as float32{}; a video's activations, which come on top, are not "
      "estimated\n",
      core::format_size(all),
      one < all ? fmt::format(" ({} with resident_experts = 1)", core::format_size(one)) : "");
  return out + "\n  " + f["command"].get<std::string>() + "\n";
}

constexpr const char* kInspectHelp = R"(usage: kinora inspect ID [options]
       kinora inspect FOLDER|X.safetensors [--json]

Prints the parameters and bytes of a model or tokenizer with the given options and, with --input, the
floating-point operations of one forward and one training step. Nothing is allocated, so a model of any size
takes no time.

A multiplication with its addition counts 2. linear: 2 rows in out. attention: 2 * 2 S L D, all queries with
all keys, masked or not. convolution: 2 for each product. Norms, activations and softmax are not counted. A
training step is three forwards; with recomputation of every block, four.

For the folder of a published pipeline (model_index.json), prints what the pipeline is, its networks, their
sizes on disk and in memory, what it generates by default, and the command that runs it; a folder that kinora
generate would refuse is refused here too, with every problem. For the folder of one of its networks
(config.json), prints the same as for the component with that configuration. For a file X.safetensors, or a
folder of weights whose configuration names no network, prints its size, its dtypes, and which matrices are in
four bits or were trained so, by which rule; and what checkpoints of Wan, Self-Forcing and LongLive are.

examples:
  kinora inspect Wan2.1-T2V-1.3B-Diffusers
  kinora inspect model/dit --set size=7B
  kinora inspect model/dit --set size=7B --set text_size=1024 \
      --input latent=1x16x16x88x160 --input timestep=1 --input text=1x512x1024
  kinora inspect tokenizer/cosmos --input video=1x3x17x256x256 --json
  kinora inspect runs/nvfp4/nvfp4/weights.safetensors

)";

}  // namespace

Flags inspect_flags() {
  using Texts = std::vector<std::string>;
  po::options_description options("options");
  options.add_options()("set", po::value<Texts>()->composing()->value_name("k=v"),
                        "option of the component; config=FILE.json reads options from a file")(
      "input", po::value<Texts>()->composing()->value_name("NAME=SHAPE"),
      "shape of an input, for example latent=1x16x21x90x160")("json", "print the result as JSON")(
      "help,h", "this text");
  return options;
}

namespace {

// "latent=1x16x21x90x160"
void add_input(const std::string& text, json& inputs) {
  const auto equals = text.find('=');
  const auto wrong = [&] {
    return Error(KINORA_ERROR_INVALID,
                 "--input " + text + ": expected NAME=SHAPE, for example latent=1x16x21x90x160");
  };
  if (equals == text.npos || equals == 0) throw wrong();
  json shape = json::array();
  const char* end = text.data() + text.size();
  for (const char* at = text.data() + equals + 1;; ++at) {
    int64_t size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 0 || (next != end && *next != 'x')) throw wrong();
    shape.push_back(size);
    at = next;
    if (at == end) break;
  }
  inputs[text.substr(0, equals)] = shape;
}

// Formats 1234567890 as "1.23 G".
std::string scaled(double n) {
  constexpr const char* units[] = {"", " k", " M", " G", " T", " P", " E"};
  size_t unit = 0;
  while (n >= 1000 && unit + 1 < std::size(units)) n /= 1000, ++unit;
  return unit ? fmt::format("{:.2f}{}", n, units[unit]) : fmt::format("{:.0f}", n);
}

std::string text_of(const json& r) {
  std::string out = fmt::format("{}: {} parameters in {} tensors\n", r["component"].get<std::string>(),
                                scaled(r["parameters"].get<double>()), r["tensors"].get<int64_t>());
  std::vector<std::vector<std::string>> lines;
  for (const auto& [dtype, bytes] : r["bytes"].items())
    lines.push_back({dtype, core::format_size(bytes.get<uint64_t>())});
  out += aligned(lines, "  ") + "\nparts\n";
  lines.clear();
  for (const auto& p : r["parts"])
    lines.push_back({p["name"].get<std::string>(),
                     p["copies"] == 1 ? "" : fmt::format("x {}", p["copies"].get<int64_t>()),
                     scaled(p["parameters"].get<double>()),
                     fmt::format("{} tensors", p["tensors"].get<int64_t>())});
  out += aligned(lines, "  ");
  if (!r.contains("flops")) return out;
  out += "\nfloating-point operations\n";
  lines.clear();
  for (const auto& [name, f] : r["flops"].items())
    lines.push_back(f.is_number()
                        ? std::vector<std::string>{name, scaled(f.get<double>())}
                        : std::vector<std::string>{name, scaled(f["total"].get<double>()),
                                                   "linear " + scaled(f["linear"].get<double>()),
                                                   "attention " + scaled(f["attention"].get<double>()),
                                                   "convolution " + scaled(f["convolution"].get<double>())});
  return out + aligned(lines, "  ");
}

int inspect_pipeline(core::Runtime& runtime, const fs::path& folder, bool as_json) {
  if (!runtime.has_log_level()) core::or_throw(core::set_log_level("warn"));  // no lines about options
  const auto problems = pipeline_problems(runtime, folder);
  for (const auto& problem : problems) complain(kUsage, problem);
  if (!problems.empty()) return kUsage;
  const json facts = pipeline_facts(folder);
  std::cout << (as_json ? facts.dump() + "\n" : pipeline_text(facts));
  return kDone;
}

// A file of weights, or a folder of them whose configuration names no network.
bool is_weights(const fs::path& path) {
  if (!fs::is_directory(path)) return path.extension() == ".safetensors" && fs::exists(path);
  const auto is_one = [](const auto& entry) { return entry.path().extension() == ".safetensors"; };
  const fs::directory_iterator files(path);
  return core::published_class(path / "config.json").empty() && std::any_of(begin(files), end(files), is_one);
}

std::string weights_text(const std::string& path, const json& f) {
  std::string out = fmt::format("{}: {} numbers, {}, {}\n", path, scaled(f["parameters"].get<double>()),
                                core::format_size(f["bytes"].get<uint64_t>()),
                                fmt::join(f["dtypes"].get<std::vector<std::string>>(), " "));
  const auto low = f["low_weights"].get<std::vector<std::string>>();
  if (low.empty()) return out;
  const std::string rule = f["scale_rule"], block = f["block"];
  return out + fmt::format("{} matrices {}{}:\n  {}\n", low.size(),
                           f["packed"] == true ? "in four bits" : "that were rounded to few bits",
                           rule.empty() ? ", by a rule that the file does not say"
                                        : fmt::format(", by {} in {}", rule, block),
                           fmt::join(low, "\n  "));
}

int inspect_weights(const std::string& path, bool as_json) {
  const auto file = open_as_listed(path);
  const auto low = core::or_throw(core::low_weights_of(file));
  json facts = file_facts(file);
  facts.update({{"low_weights", low.names}, {"scale_rule", low.scale_rule}, {"block", low.block}});
  facts["packed"] = facts["dtypes"].dump().find("NVFP4") != std::string::npos;
  const fs::path folder = file.files()[0].parent_path();
  facts["checkpoint"] = core::checkpoint_facts(file.tensors(), file.metadata(), folder);
  const json& known = facts["checkpoint"];
  std::cout << (as_json ? facts.dump() + "\n"
                        : weights_text(path, facts) + (known.is_null() ? "" : core::checkpoint_text(known)));
  return kDone;
}

int inspect(core::Runtime& runtime, const Arguments& arguments) {
  po::options_description all = inspect_flags();
  all.add_options()("id", po::value<std::string>()->default_value(""));
  po::positional_options_description positional;
  positional.add("id", 1);
  po::variables_map given;
  po::store(po::command_line_parser(arguments).options(all).positional(positional).run(), given);
  if (given.count("help")) {
    std::cout << help_of(kInspectHelp, inspect_flags());
    return kDone;
  }
  const auto texts = [&](const char* name) {
    return given.count(name) ? given[name].as<std::vector<std::string>>() : std::vector<std::string>();
  };
  const std::string id = given["id"].as<std::string>();
  if (id.empty())
    return complain(
        kUsage,
        "inspect: a component or folder is missing; see kinora plugins list and kinora inspect --help");
  const bool is_folder = fs::is_directory(id);
  if (is_folder && fs::exists(fs::path(id) / "model_index.json")) {
    if (given.count("set") || given.count("input"))
      return complain(kUsage, "inspect: --set and --input are for one network, and " + id +
                                  " is a whole pipeline; name a part, such as " +
                                  (fs::path(id) / "transformer").string());
    return inspect_pipeline(runtime, (fs::absolute(id) / "").lexically_normal().parent_path(),
                            given.count("json") != 0);
  }
  if (const fs::path file = id; fs::is_regular_file(file) && file.extension() == ".json")
    return complain(kUsage, "inspect: " + id + " is a file; give its folder: kinora inspect " +
                                in_shell(file.has_parent_path() ? file.parent_path().string() : "."));
  if (core::is_pickle(id)) return complain(kUsage, "inspect: " + core::pickle_advice(id));
  if (is_weights(id)) {
    if (given.count("set") || given.count("input"))
      return complain(kUsage, "inspect: --set and --input are for a network, and " + id + " is weights");
    return inspect_weights(id, given.count("json") != 0);
  }
  auto sets = texts("set");
  if (is_folder) sets.push_back("config=" + id);
  const auto spec = runtime.registry().find(is_folder ? core::published_component(id) : id);
  if (!spec) {
    const std::string said = spec.failure().message;
    return complain(
        kUsage, "inspect: " + said + (said.ends_with('?') ? " " : "; ") + "no folder has this name either");
  }
  json request = {{"id", (*spec)->id},
                  {"options", options_of(runtime.registry(), **spec, sets)},
                  {"inputs", json::object()}};
  for (const auto& input : texts("input")) add_input(input, request["inputs"]);
  const auto result = core::tensors().inspect(runtime, request);
  std::cout << (given.count("json") ? result.dump() + "\n" : text_of(result));
  return kDone;
}

}  // namespace

// Nothing is run, so every error is one of usage or of the files that are named.
int inspect_command(core::Runtime& runtime, const Arguments& arguments) {
  try {
    return inspect(runtime, arguments);
  } catch (const Error& e) {
    if (e.code() == KINORA_ERROR_CANCELLED) throw;
    return complain(kUsage, e.what());
  }
}

}  // namespace kinora
