#include "plugins/jobs/published/published_pipeline.hpp"

#include <algorithm>
#include <fstream>
#include <map>

#include <fmt/ranges.h>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/run/published_classes.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/published/published_sampler.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The defaults of a pipeline's call in diffusers 0.42, which are in no file of the folder.
struct PublishedCall {
  int64_t height, width, frames, steps, fps;
  double guidance;
  bool from_text_alone;
};
const std::map<std::string, PublishedCall> kPublishedCalls{
    {"WanPipeline", {480, 832, 81, 50, 16, 5, true}},
    {"WanImageToVideoPipeline", {480, 832, 81, 50, 16, 5, false}},
    {"CosmosTextToWorldPipeline", {704, 1280, 121, 36, 30, 7, true}},
    {"CosmosVideoToWorldPipeline", {704, 1280, 121, 36, 30, 7, false}},
    {"Cosmos2TextToImagePipeline", {768, 1360, 1, 35, 16, 7, true}},
    {"Cosmos2VideoToWorldPipeline", {704, 1280, 93, 35, 16, 7, false}},
};

// The parts of a folder that Kinora reads.
constexpr const char* kParts[] = {"transformer", "transformer_2", "text_encoder", "image_encoder",
                                  "vae",         "tokenizer",     "scheduler"};

template <class Map>
std::string keys_of(const Map& map) {
  std::vector<std::string> out;
  for (const auto& [key, value] : map) out.push_back(key);
  return fmt::format("{}", fmt::join(out, ", "));
}

json pipeline_object(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw Error(KINORA_ERROR_NOT_FOUND,
                file.string() + ": no such file, or it cannot be read; is the download complete?");
  json out = parse_facts(std::string(std::istreambuf_iterator<char>(in), {}));
  if (!out.is_object())
    throw Error(KINORA_ERROR_DATA,
                file.string() + ": not a JSON object, or cut off; is the download complete?");
  return out;
}

std::string component_name(const std::string& id) { return id.substr(id.find('/') + 1); }

double given_number(const json& table, const char* name, double otherwise) {
  return table.contains(name) && table[name].is_number() ? table[name].get<double>() : otherwise;
}

}  // namespace

PublishedPipeline::PublishedPipeline(const fs::path& given) : folder(given) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    throw Error(KINORA_ERROR_NOT_FOUND,
                folder.string() + ": there is no such folder; give the one that has model_index.json");
  if (!fs::exists(folder / "model_index.json", ignored))
    throw Error(KINORA_ERROR_NOT_FOUND,
                folder.string() +
                    ": model_index.json is missing, so it is not a pipeline; of a single network "
                    "give the slot and its weights, such as weights = \"" +
                    folder.string() + "\"");
  index = pipeline_object(folder / "model_index.json");
  name = said_in<std::string>(index, "_class_name", "");
  const auto call = kPublishedCalls.find(name);
  if (call == kPublishedCalls.end())
    throw Error(KINORA_ERROR_UNSUPPORTED, fmt::format("{}: pipelines of class '{}' are not known; known: {}",
                                                      folder.string(), name, keys_of(kPublishedCalls)));
  from_text_alone = call->second.from_text_alone;
}

std::string published_component(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / "config.json", ignored))
    throw Error(
        KINORA_ERROR_INVALID,
        folder.string() +
            ": neither a pipeline's folder (model_index.json) nor a network's (config.json); give one "
            "of them, such as Wan2.1-T2V-1.3B-Diffusers or its transformer/");
  pipeline_object(folder / "config.json");
  const std::string kind = published_class(folder / "config.json");
  const auto found = published_classes().find(kind);
  if (found != published_classes().end()) return found->second;
  throw Error(KINORA_ERROR_UNSUPPORTED,
              fmt::format("{}: networks of class '{}' are not known; known: {}",
                          (folder / "config.json").string(), kind, keys_of(published_classes())));
}

bool PublishedPipeline::has(const std::string& part) const {
  const json named = index.value(part, json());
  return named.is_array() && named.size() == 2 && named[1].is_string();
}

std::string PublishedPipeline::component(const std::string& part) const {
  const std::string kind = has(part) ? index[part][1].get<std::string>() : "";
  const auto found = published_classes().find(kind);
  if (found != published_classes().end()) return found->second;
  throw Error(KINORA_ERROR_UNSUPPORTED,
              fmt::format("{}: {} of class '{}' is not known; known: {}",
                          (folder / "model_index.json").string(), part, kind, keys_of(published_classes())));
}

void PublishedPipeline::require_all_parts() const {
  std::set<fs::path> all;
  for (const char* part : kParts) all.insert(folder / part);
  require_parts(all);
}

void PublishedPipeline::require_parts(const std::set<fs::path>& read) const {
  std::vector<std::string> missing;
  std::error_code ignored;
  for (const char* part : kParts) {
    if (!has(part) || !read.contains(folder / part)) continue;
    const std::string name = part;
    const std::string file = name == "tokenizer"   ? ""
                             : name == "scheduler" ? "scheduler_config.json"
                                                   : "config.json";
    if (!fs::exists(folder / part, ignored))
      missing.push_back(name + "/");
    else if (!fs::exists(folder / part / file, ignored))
      missing.push_back(name + "/" + file);
  }
  if (missing.empty()) return;
  throw Error(KINORA_ERROR_NOT_FOUND,
              fmt::format("{}: {} {} missing; is the download complete?", folder.string(),
                          fmt::join(missing, ", "), missing.size() == 1 ? "is" : "are"));
}

json PublishedPipeline::config(const std::string& part, const std::string& file) const {
  return pipeline_object(folder / part / file);
}

namespace {

// The job options that a pipeline's folder implies. Each method adds those of one part, or of one kind of
// job.
class FolderJob {
 public:
  explicit FolderJob(const PublishedPipeline& of, bool own_sampler)
      : of_(of),
        call_(kPublishedCalls.at(of.name)),
        cosmos_(of.component("transformer") == "model/cosmos"),
        own_sampler_(own_sampler) {}

  json out = json::object();

  void train_tokenizer() { network("tokenizer", "vae", "weights"); }

  void encode() {
    network("tokenizer", "vae", "tokenizer_weights");
    text();
    pictures();
    out["scale"] = "none";
    out["sigma_data"] = sampler().value("sigma_data", 1.0);
    if (cosmos_) return;
    const json transformer = of_.config("transformer");
    out["first_frame"] =
        said_in<int64_t>(transformer, "in_channels", 16) > said_in<int64_t>(transformer, "out_channels", 16);
  }

  void train() {
    model();
    out["loss"] = sampler()["loss"];
  }

  // before: kinds of the upstream jobs; what they provide is left out here.
  void generate(const std::set<std::string>& before) {
    const json from = sampler();
    out["sampler"] = from["sampler"];
    call();
    if (!before.contains("train")) {
      out["loss"] = from["loss"];
      model();
    }
    if (!before.contains("train-tokenizer")) network("tokenizer", "vae", "tokenizer_weights");
    if (!before.contains("encode")) {
      if (from.contains("sigma_data")) out["sigma_data"] = from["sigma_data"];
      text();
      pictures();
    }
  }

  void experts(const std::string& kind) {
    const double boundary = said_in(of_.index, "boundary_ratio", 0.0);
    if (boundary <= 0 || !of_.has("transformer_2")) return;
    if (kind == "train") out["weights"] = json::array();
    if (out.contains("weights") && kind == "generate") {
      out["weights_2"] = {path("transformer_2")};
      out["boundary"] = boundary;
    }
  }

 private:
  std::string path(const char* part) const { return (of_.folder / part).string(); }

  void network(const char* slot, const char* part, const char* weights) {
    out[slot] = {{"use", component_name(of_.component(part))}};
    out[weights] = {path(part)};
  }

  void model() {
    network("model", "transformer", "weights");
    if (cosmos_) out["model"]["base_fps"] = 24;  // hard-coded in diffusers
  }

  void text() {
    network("text", "text_encoder", "text_weights");
    out["words"] = {
        {"use", "text.tokenizer"}, {"file", path("tokenizer")}, {"clean", !cosmos_}, {"max_length", 512}};
    out["max_tokens"] = 512;
    out["pad_text"] = true;
  }

  // Wan's image-to-video model has a mask and a picture's latent among its channels; 2.1 also reads CLIP's
  // tokens.
  void pictures() {
    if (cosmos_ || !of_.has("image_encoder") ||
        said_in<int64_t>(of_.config("transformer"), "image_dim", 0) == 0)
      return;
    network("image_encoder", "image_encoder", "image_encoder_weights");
  }

  // Sampler and loss of the folder's scheduler; for an unknown one only the loss, if the user names a
  // sampler.
  json sampler() const {
    const fs::path file = of_.folder / "scheduler" / "scheduler_config.json";
    if (!own_sampler_ && !fs::exists(file)) of_.require_all_parts();
    try {
      const json scheduler = pipeline_object(file);
      return cosmos_ ? edm_sampler(scheduler, call_.steps) : flow_sampler(scheduler, call_.steps);
    } catch (const Error& e) {
      if (own_sampler_) return {{"sampler", {{"use", ""}}}, {"loss", {{"use", usual_loss()}}}};
      const std::string what = e.what();
      throw Error(e.code(), what.starts_with(file.string()) ? what : file.string() + ": " + what);
    }
  }

  const char* usual_loss() const {
    if (!cosmos_) return "flow";
    return of_.name.starts_with("Cosmos2") ? "rectified-flow" : "edm";
  }

  // The defaults of the pipeline's call.
  void call() {
    out.update({{"frames", call_.frames},
                {"height", call_.height},
                {"width", call_.width},
                {"fps", call_.fps},
                {"guidance", call_.guidance},
                {"guidance_convention", cosmos_ ? "nemo" : "diffusers"}});
    if (said_in(of_.index, "expand_timesteps", false)) out["fps"] = 24;
    if (of_.name == "Cosmos2VideoToWorldPipeline")
      out["condition_sigma"] = 0;  // the model gets the loss's sigma_conditional instead
    if (of_.name == "CosmosVideoToWorldPipeline") out["condition_timestep"] = "shared";
    if (cosmos_ && call_.frames > 1) out["signals"] = {fmt::format("fps={}", call_.fps)};
    out["encode_negative"] = true;
  }

  const PublishedPipeline& of_;
  const PublishedCall& call_;
  const bool cosmos_, own_sampler_;
};

}  // namespace

json PublishedPipeline::options(const std::string& kind, const std::set<std::string>& before,
                                bool own_sampler) const {
  FolderJob job(*this, own_sampler);
  if (kind == "train-tokenizer")
    job.train_tokenizer();
  else if (kind == "encode")
    job.encode();
  else if (kind == "train")
    job.train();
  else
    job.generate(before);
  job.experts(kind);
  return job.out;
}

namespace {

bool is_weights(const std::string& option) { return option == "weights_2" || option.ends_with("weights"); }

// If the user names another component, drops the folder's options for the replaced one.
void leave_out_replaced(json& out, const json& given) {
  const std::map<std::string, std::vector<std::string>> slots{
      {"model", {"weights", "weights_2", "boundary", "loss"}},
      {"tokenizer", {"tokenizer_weights"}},
      {"text", {"text_weights", "words"}},
      {"image_encoder", {"image_encoder_weights"}},
      {"sampler", {}},
      {"words", {}},
      {"loss", {}}};
  for (const auto& [slot, options] : slots) {
    if (!given.contains(slot) || !out.contains(slot)) continue;
    const json asked = given[slot].is_object() ? given[slot].value("use", out[slot]["use"]) : given[slot];
    if (asked == out[slot]["use"]) continue;
    out.erase(slot);
    for (const auto& option : options) out.erase(option);
  }
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

// Moves options of the job to the components that have them. others: the differences from the pipeline, for
// the log.
void move_into_parts(json& out, const json& given, std::vector<std::string>& others) {
  if (given.contains("steps") && given["steps"].is_number() && out["sampler"].is_object() &&
      given["steps"] != 0 &&
      !(given.contains("sampler") && given["sampler"].is_object() && given["sampler"].contains("steps"))) {
    json& steps = out["sampler"]["steps"];
    if (steps != given["steps"])
      others.push_back(fmt::format("steps = {} ({})", given["steps"].dump(), steps.dump()));
    steps = given["steps"];
  }
  if (given.contains("max_tokens") && out.contains("words") && out["words"].is_object() &&
      !given.contains("words"))
    out["words"]["max_length"] = given["max_tokens"];
  if (given.contains("fps") && given["fps"].is_number() && out.contains("signals") &&
      !given.contains("signals") && given["fps"] != 0)
    out["signals"] = {fmt::format("fps={}", given["fps"].get<double>())};
}

}  // namespace

json with_pipeline(const std::string& kind, const std::string& job, json table, const fs::path& folder,
                   const std::set<std::string>& before) {
  const PublishedPipeline pipeline(folder);
  const json given = std::move(table);
  const json sampler = given.value("sampler", json());
  const bool own_sampler = sampler.is_string() || (sampler.is_object() && sampler.contains("use"));
  json out = pipeline.options(kind, before, own_sampler);
  std::vector<std::string> others;
  leave_out_replaced(out, given);
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
    } else if (own != value && !(own.is_object() && own["use"] == value)) {
      others.push_back(fmt::format("{} = {} ({})", key, value.dump(), own.dump()));
      own = value;
    }
  }
  if (kind == "generate") {
    move_into_parts(out, given, others);
    by_their_scale(out, given);
    const auto is_left_out = [&](const char* name) { return given.value(name, json("")) == ""; };
    if (!pipeline.from_text_alone && is_left_out("image") && is_left_out("video") &&
        is_left_out("prompts_file"))
      throw Error(KINORA_ERROR_INVALID,
                  folder.string() +
                      ": this pipeline begins with a picture or a video; give image = \"FILE\" or video = "
                      "\"FILE\" (kinora generate --image FILE)");
    const json image = given.value("image", json(""));
    if (pipeline.name == "WanPipeline" && !said_in(pipeline.index, "expand_timesteps", false) &&
        image.is_string() && image != "")
      throw Error(KINORA_ERROR_INVALID,
                  folder.string() +
                      ": this pipeline makes videos of a text alone; leave `image` out, or give the "
                      "folder of an image-to-video pipeline");
  }
  if (kind == "train" && out.value("weights", json()) == json::array())
    throw Error(
        KINORA_ERROR_INVALID,
        fmt::format("{0}: this pipeline has two experts, and a train job trains one; say which: weights = "
                    "\"{0}/transformer\" (high noise) or \"{0}/transformer_2\" (low noise)",
                    folder.string()));
  if (!others.empty())
    log_info("{}: differs from the pipeline {} (its values in brackets): {}", job, folder.filename().string(),
             fmt::join(others, ", "));
  return out;
}

}  // namespace kinora::core
