#include "apps/kinora/inspect_pipeline.hpp"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "apps/kinora/plugins_format.hpp"
#include "core/io/safetensors.hpp"
#include "core/base/quantity.hpp"
#include "plugins/jobs/published/published_pipeline.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json part_facts(const core::PublishedPipeline& pipeline, const std::string& name) {
  const auto opened = core::or_throw(core::Safetensors::open(pipeline.folder / name));
  uint64_t parameters = 0, bytes = 0;
  std::set<std::string> dtypes;
  for (const auto& t : opened.tensors()) {
    uint64_t n = 1;
    for (const int64_t size : t.shape) n *= static_cast<uint64_t>(size);
    parameters += n;
    bytes += t.bytes.size();
    dtypes.insert(core::name_of(t.dtype));
  }
  return {{"name", name},
          {"component", pipeline.component(name)},
          {"files", opened.files().size()},
          {"parameters", parameters},
          {"bytes", bytes},
          {"dtypes", dtypes}};
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

// The version that wrote the folder. "?" for anything but a short printable text, since the folder may come from anyone.
std::string version_in(const json& index) {
  const json said = index.value("_diffusers_version", json());
  const std::string text = said.is_string() ? said.get<std::string>() : "";
  const bool is_plain = !text.empty() && text.size() < 40 && std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
  return is_plain ? text : "?";
}

}  // namespace

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

}  // namespace kinora
