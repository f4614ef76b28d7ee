// A job's table over the options of a published folder: what the table names is replaced, the rest stays.
#include <map>

#include <fmt/ranges.h>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/published/published_pipeline.hpp"
#include "plugins/jobs/published/published_sampler.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

double given_number(const json& table, const char* name, double otherwise) {
  return table.contains(name) && table[name].is_number() ? table[name].get<double>() : otherwise;
}

// A value for a line of the log.
std::string brief(const json& value) {
  constexpr size_t kMost = 60;
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= kMost ? text : valid_utf8(text.substr(0, kMost)) + "...\"";
}

bool is_weights(const std::string& option) { return option == "weights_2" || option.ends_with("weights"); }

// The other sampler with the folder's steps and levels, if it has options of the same names.
json with_levels(const json& asked, const json& own) {
  static const std::vector<std::set<std::string>> alike{{"unipc", "flow-euler"},
                                                        {"euler", "edm-heun", "dpmpp-2m", "res"}};
  json out = asked.is_object() ? asked : json{{"use", asked}};
  for (const auto& samplers : alike) {
    if (!samplers.contains(own["use"]) || !out["use"].is_string() || !samplers.contains(out["use"])) continue;
    for (const char* option : {"steps", "shift", "sigma_min", "sigma_max", "rho"})
      if (own.contains(option) && !out.contains(option)) out[option] = own[option];
    return out;
  }
  return asked;
}

// The other loss with the limits of the folder's, a flow's: shares of the noise s, of which its sigma is s / (1 - s).
// levels: validation_sigmas, which follow.
json with_limits(const json& asked, const json& own, json& levels) {
  json out = asked.is_object() ? asked : json{{"use", asked}};
  const bool in_sigma = out["use"] == "edm" || out["use"] == "rectified-flow";
  if (own["use"] != "flow" || !in_sigma || out.contains("sigma_min") || out.contains("sigma_max"))
    return asked;
  const auto sigma = [](double share) { return share / (1 - share); };
  for (const char* option : {"sigma_min", "sigma_max"})
    if (const double share = given_number(own, option, 0); share > 0 && share < 1) out[option] = sigma(share);
  if (!out.contains("sigma_min") && !out.contains("sigma_max")) return asked;
  for (auto& level : levels) level = sigma(level.get<double>());
  return out;
}

// Lists what the folder's component and `options` have that is in neither the job's table nor what is kept of it.
std::string left_out(const json& out, const json& given, const std::string& slot,
                     const std::vector<std::string>& options) {
  std::vector<std::string> lost;
  for (const auto& [option, value] : out[slot].items())
    if (option != "use" && !(given[slot].is_object() && given[slot].contains(option)))
      lost.push_back(fmt::format("{}.{} = {}", slot, option, brief(value)));
  for (const auto& option : options)
    if (out.contains(option) && !given.contains(option))
      lost.push_back(fmt::format("{} = {}", option, brief(out[option])));
  return lost.empty() ? "" : fmt::format(", without the pipeline's {}", fmt::join(lost, ", "));
}

// If the user names another component, drops the folder's options for the replaced one.
void leave_out_replaced(json& out, json& given, std::vector<std::string>& others) {
  const std::map<std::string, std::vector<std::string>> slots{
      {"model", {"weights", "weights_2", "boundary", "loss", "expert", "validation_sigmas"}},
      {"tokenizer", {"tokenizer_weights"}},
      {"text", {"text_weights", "words"}},
      {"image_encoder", {"image_encoder_weights"}},
      {"sampler", {}},
      {"words", {}},
      {"loss", {"validation_sigmas"}}};
  for (const auto& [slot, options] : slots) {
    if (!given.contains(slot) || !out.contains(slot)) continue;
    const json asked = given[slot].is_object() ? given[slot].value("use", out[slot]["use"]) : given[slot];
    if (asked == out[slot]["use"]) continue;
    const json before = given[slot];
    std::vector<std::string> lost = options;
    if (slot == "sampler") given[slot] = with_levels(before, out[slot]);
    if (slot == "loss" && out.value("expert", "") != "") {
      json levels = out.value("validation_sigmas", json::array());
      given[slot] = with_limits(before, out[slot], levels);
      if (given[slot] != before) lost.clear(), out["validation_sigmas"] = levels;
    }
    others.push_back(fmt::format("{} = {} ({}{})", slot, asked.dump(), out[slot]["use"].dump(),
                                 left_out(out, given, slot, lost)));
    out.erase(slot);
    for (const auto& option : lost) out.erase(option);
  }
}

bool is_part(const fs::path& given, const PublishedPipeline& pipeline, const char* part) {
  const fs::path path = (given / "").lexically_normal().parent_path();
  return path.filename() == part &&
         (path.is_absolute() ? path.parent_path() == pipeline.folder.lexically_normal()
                             : path.parent_path().filename() == pipeline.folder.filename());
}

// The expert that a train job names by its option, or by the folder among its weights, which the pipeline then
// gives; "": neither.
std::string take_expert(const PublishedPipeline& pipeline, json& given) {
  const json named = given.value("expert", json(""));
  std::string out = named.is_string() ? named.get<std::string>() : "";
  json weights = given.value("weights", json::array());
  if (!weights.is_array()) weights = json::array({weights});
  json rest = json::array();
  for (const auto& path : weights) {
    const bool is_text = path.is_string(), high = is_text && is_part(path, pipeline, "transformer");
    if (!high && !(is_text && is_part(path, pipeline, "transformer_2"))) {
      rest.push_back(path);
      continue;
    }
    const std::string expert = high ? "high" : "low";
    if (!out.empty() && out != expert)
      throw Error(
          KINORA_ERROR_INVALID,
          fmt::format("weights = {} are of the expert for {} noise, and expert = \"{}\"; leave one out",
                      path.dump(), expert, out));
    out = expert;
  }
  if (rest.empty())
    given.erase("weights");
  else
    given["weights"] = rest;
  return out;
}

// Takes the expert of a train job from its table; "" for a model that is not the pipeline's. Throws
// kinora::Error if the pipeline has one network, or if nothing says which of two.
std::string expert_of(const PublishedPipeline& pipeline, json& given) {
  if (pipeline.boundary() == 0) {
    if (given.value("expert", json("")) == "") return "";
    throw Error(
        KINORA_ERROR_INVALID,
        pipeline.folder.string() + ": this pipeline has one transformer and no experts; leave expert out");
  }
  const json model = given.value("model", json()),
             use = model.is_object() ? model.value("use", json()) : model;
  if (use.is_string() && "model/" + use.get<std::string>() != pipeline.component("transformer")) return "";
  std::string out = take_expert(pipeline, given);
  if (out.empty())
    throw Error(
        KINORA_ERROR_INVALID,
        fmt::format("{}: this pipeline has two experts; say which of them to train: expert = \"high\" or "
                    "\"low\" (noise), or \"both\"",
                    pipeline.folder.string()));
  return out;
}

// The tables of the two jobs that train both experts. Throws kinora::Error.
json of_both(const PublishedPipeline& pipeline, const std::string& job, const json& table,
             const std::set<std::string>& before) {
  if (table.contains("weights"))
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("weights = {} are of one expert, and expert = \"both\"; write two train jobs, "
                            "expert = \"high\" and expert = \"low\", each with its weights",
                            table["weights"].dump()));
  json out = json::array();
  for (const char* expert : {"high", "low"}) {
    const std::string name = fmt::format("{}-{}", job, expert);
    json one = table;
    one["name"] = name;
    one["expert"] = expert;
    out.push_back(with_pipeline("train", name, std::move(one), pipeline.folder, before));
  }
  return out;
}

// The parts of the folder that a job with these options reads: of `out`, what `given` does not replace.
std::set<fs::path> parts_read(const json& out, const json& given) {
  std::set<fs::path> parts;
  for (const auto& [key, value] : out.items())
    if (is_weights(key))
      for (const auto& path : value) parts.insert(path.get<std::string>());
  const json words = given.value("words", json());
  if (out.contains("words") && !(words.is_object() && words.contains("file")))
    parts.insert(out["words"]["file"].get<std::string>());
  return parts;
}

// diffusers applies no guidance for any scale up to 1; in Cosmos' own convention there is guidance.
void by_their_scale(json& out, const json& given) {
  if (given.contains("guidance_convention")) return;
  const double none = out["guidance_convention"] == "nemo" ? 0 : 1;
  if (!(given_number(out, "guidance", 2) <= 1)) return;
  out["guidance"] = none;
  if (out.contains("guidance_2")) out["guidance_2"] = none;
}

// Moves options of the job to the components that have them. option: of the sampler's steps. others: the
// differences from the pipeline, for the log.
void move_into_parts(json& out, const json& given, const char* option, std::vector<std::string>& others) {
  if (given.contains(option) && given[option].is_number() && out.contains("sampler") &&
      out["sampler"].is_object() && given[option] != 0 &&
      !(given.contains("sampler") && given["sampler"].is_object() && given["sampler"].contains("steps"))) {
    json& steps = out["sampler"]["steps"];
    if (steps != given[option])
      others.push_back(fmt::format("{} = {} ({})", option, given[option].dump(), steps.dump()));
    steps = given[option];
  }
  if (given.contains("max_tokens") && out.contains("words") && out["words"].is_object() &&
      !given.contains("words"))
    out["words"]["max_length"] = given["max_tokens"];
  const bool reads_rate =
      out.contains("model") && out["model"].is_object() && given_number(out["model"], "base_fps", 0) > 0;
  if (!given.contains("signals") && (reads_rate || out.contains("signals")) &&
      given_number(out, "fps", 0) > 0)
    out["signals"] = {fmt::format("fps={}", given_number(out, "fps", 0))};
}

// Throws kinora::Error if the pipeline begins with more than a text and the job has nothing else. The job's
// check refuses what the pipeline does not take.
void require_start(const PublishedPipeline& pipeline, const json& given) {
  const auto is_left_out = [&](const char* name) { return given.value(name, json("")) == ""; };
  const bool takes_video =
      pipeline.name != "WanImageToVideoPipeline" || said_in(pipeline.index, "expand_timesteps", false);
  if (!pipeline.from_text_alone && is_left_out("image") && (is_left_out("video") || !takes_video) &&
      is_left_out("prompts_file"))
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("{}: this pipeline begins with a picture{}; give image = \"FILE\"{} (kinora "
                            "generate --image FILE)",
                            pipeline.folder.string(), takes_video ? " or a video" : "",
                            takes_video ? " or video = \"FILE\"" : ""));
}

}  // namespace

json with_pipeline(const std::string& kind, const std::string& job, json table, const fs::path& folder,
                   const std::set<std::string>& before) {
  const PublishedPipeline pipeline(folder);
  if (kind == "train" && pipeline.boundary() > 0 && table.value("expert", json()) == "both")
    return of_both(pipeline, job, table, before);
  const json asked = std::move(table);
  json given = asked;
  const json sampler = given.value("sampler", json());
  const bool own_sampler = sampler.is_string() || (sampler.is_object() && sampler.contains("use"));
  const std::string expert = kind == "train" ? expert_of(pipeline, given) : "";
  json out = pipeline.options(kind, {before, own_sampler, expert});
  std::vector<std::string> others;
  leave_out_replaced(out, given, others);
  pipeline.require_parts(parts_read(out, given));
  for (const auto& [key, value] : given.items()) {
    if (!out.contains(key)) {
      out[key] = value;
      continue;
    }
    json& own = out[key];
    if (own.is_object() && value.is_object()) {
      for (const auto& [option, of] : value.items())
        if (own.value(option, json()) != of)
          others.push_back(fmt::format("{}.{} = {} ({})", key, option, of.dump(),
                                       own.value(option, json("default")).dump()));
      own.update(value);
    } else if (is_weights(key)) {
      for (const auto& one : value.is_array() ? value : json::array({value})) own.push_back(one);
      others.push_back(fmt::format("{} = {}", key, value.dump()));
    } else if (!(own == value) && !(own.is_object() && own["use"] == value)) {
      others.push_back(fmt::format("{} = {} ({})", key, brief(value), brief(own)));
      own = value;
    }
  }
  if (kind == "encode" && given_number(asked, "frames", 0) == 1 && !asked.contains("signals"))
    out.erase("signals");  // pictures have no rate
  move_into_parts(out, asked, kind == "train" ? "sample_steps" : "steps", others);
  if (kind == "generate") {
    by_their_scale(out, asked);
    require_start(pipeline, asked);
  }
  if (!others.empty())
    log_info("{}: differs from the pipeline {} (its values in brackets): {}", job, folder.filename().string(),
             fmt::join(others, ", "));
  return out;
}

}  // namespace kinora::core
