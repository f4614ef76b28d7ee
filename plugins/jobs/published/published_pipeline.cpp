#include "plugins/jobs/published/published_pipeline.hpp"

#include <map>

#include <fmt/ranges.h>

#include "core/base/facts.hpp"
#include "core/base/regular_file.hpp"
#include "core/io/contents.hpp"
#include "host/weights/published_classes.hpp"
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

constexpr int64_t kPictureSteps = 12;  // default of sample_steps of a train job

// The default negative prompt of Cosmos' pipelines in diffusers (DEFAULT_NEGATIVE_PROMPT).
constexpr const char* kCosmosNegative =
    "The video captures a series of frames showing ugly scenes, static with no motion, motion "
    "blur, over-saturation, shaky footage, low resolution, grainy texture, pixelated images, "
    "poorly lit areas, underexposed and overexposed scenes, poor color balance, washed out "
    "colors, choppy sequences, jerky movements, low frame rate, artifacting, color banding, "
    "unnatural transitions, outdated special effects, fake elements, unconvincing visuals, poorly "
    "edited content, jump cuts, visual noise, and flickering. Overall, the video is of poor "
    "quality.";

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
  const auto text = read_regular_file(file);
  if (!text) throw Error(text.failure().code, text.failure().message + "; is the download complete?");
  json out = parse_facts(*text);
  if (!out.is_object())
    throw Error(KINORA_ERROR_DATA,
                file.string() + ": not a JSON object, or cut off; is the download complete?");
  return out;
}

// A file where a pipeline's folder is expected.
[[noreturn]] void refuse_file(const fs::path& file) {
  const auto other = of_another_layout(file);
  throw Error(
      KINORA_ERROR_INVALID,
      fmt::format(
          "{}; a pipeline is a folder with model_index.json: give {}",
          other.empty() ? file.string() + " is a file" : other,
          file.filename() == "model_index.json"
              ? file.parent_path().string()
              : "that of the same release; a safetensors file goes over its network's weights: kinora "
                "generate --pipeline FOLDER --set weights=FILE.safetensors"));
}

std::string component_name(const std::string& id) { return id.substr(id.find('/') + 1); }

}  // namespace

PublishedPipeline::PublishedPipeline(const fs::path& given) : folder(given) {
  std::error_code ignored;
  if (fs::exists(folder, ignored) && !fs::is_directory(folder, ignored)) refuse_file(folder);
  if (!fs::is_directory(folder, ignored))
    throw Error(KINORA_ERROR_NOT_FOUND,
                folder.string() + ": there is no such folder; give the one that has model_index.json");
  if (!fs::exists(folder / "model_index.json", ignored))
    if (const auto other = of_another_layout(folder); !other.empty())
      throw Error(KINORA_ERROR_NOT_FOUND, other);
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
  if (const auto other = of_another_layout(folder); !other.empty()) throw Error(KINORA_ERROR_INVALID, other);
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

bool PublishedPipeline::takes_frames() const {
  return !from_text_alone || said_in(index, "expand_timesteps", false);
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

double PublishedPipeline::boundary() const {
  return has("transformer_2") ? said_in(index, "boundary_ratio", 0.0) : 0;
}

json PublishedPipeline::config(const std::string& part, const std::string& file) const {
  return pipeline_object(folder / part / file);
}

namespace {

// The job options that a pipeline's folder implies. Each method adds those of one part, or of one kind of
// job.
class FolderJob {
 public:
  FolderJob(const PublishedPipeline& of, const PublishedPipeline::Requester& asked)
      : of_(of),
        call_(kPublishedCalls.at(of.name)),
        cosmos_(of.component("transformer") == "model/cosmos"),
        frames_have_timesteps_(said_in(of.index, "expand_timesteps", false)),
        asked_(asked) {}

  json out = json::object();

  void train_tokenizer() { network("tokenizer", "vae", "weights"); }

  void encode() {
    if (!follows("train-tokenizer")) network("tokenizer", "vae", "tokenizer_weights");
    text();
    out["encode_empty"] = true;
    pictures();
    out["scale"] = "none";
    out["sigma_data"] = sampler().value("sigma_data", 1.0);
    if (scales_positions_by_rate())
      out["signals"] = {"fps"};  // that of each clip, as the sampler gives that of the result
    if (cosmos_) return;
    const json transformer = of_.config("transformer");
    out["first_frame"] =
        said_in<int64_t>(transformer, "in_channels", 16) > said_in<int64_t>(transformer, "out_channels", 16);
    // Wan's model of a first and a last frame (FLF2V) is the one with learnt positions of both pictures.
    out["last_frame"] = out["first_frame"] && of_.has("image_encoder") &&
                        said_in<int64_t>(transformer, "pos_embed_seq_len", 0) > 0;
  }

  // The loss draws the levels that the sampler visits: those of its shift, and an expert those of its side of the
  // boundary.
  void train() {
    const json from = sampler();
    model();
    out["loss"] = from["loss"];
    if (from["sampler"].contains("shift")) out["loss"]["shift"] = from["sampler"]["shift"];
    if (from["sampler"]["use"] != "") {
      out["sampler"] = from["sampler"];
      out["sampler"]["steps"] = kPictureSteps;
    }
    given_frames();
    if (of_.name.ends_with("VideoToWorldPipeline")) out["condition_frames"] = {1};
    if (frames_have_timesteps_) out["condition_frames"] = {0, 1};
    if (of_.boundary() > 0) expert();
  }

  void generate() {
    const json from = sampler();
    if (!follows("distill")) out["sampler"] = from["sampler"];  // else the steps that the student learnt
    call();
    if (follows("distill")) out["guidance"] = cosmos_ ? 0 : 1;  // which the student learnt too
    given_frames();
    if (!follows("train")) {
      out["loss"] = from["loss"];
      model();
      if (of_.boundary() > 0) {
        out["weights_2"] = {path("transformer_2")};
        out["boundary"] = of_.boundary();
      }
    }
    if (!follows("train-tokenizer")) network("tokenizer", "vae", "tokenizer_weights");
    if (follows("encode")) return;  // that job has the texts, and what stands for no text
    out["encode_negative"] = true;
    if (from.contains("sigma_data")) out["sigma_data"] = from["sigma_data"];
    text();
    pictures();
  }

 private:
  bool follows(const char* kind) const { return asked_.before.contains(kind); }

  void expert() {
    const bool high = asked_.expert == "high";
    const double low = high ? of_.boundary() : 0, above = high ? 1 : of_.boundary();
    out["expert"] = asked_.expert;
    out["weights"] = {path(high ? "transformer" : "transformer_2")};
    out["loss"]["sigma_min"] = low;
    out["loss"]["sigma_max"] = above;
    for (const double share : {0.25, 0.5, 0.75})
      out["validation_sigmas"].push_back(low + share * (above - low));
  }

  // How given frames enter.
  void given_frames() {
    if (of_.name == "Cosmos2VideoToWorldPipeline")
      out["condition_sigma"] = 0;  // the model gets the loss's sigma_conditional instead
    if (of_.name == "CosmosVideoToWorldPipeline") out["condition_timestep"] = "shared";
  }

  std::string path(const char* part) const { return (of_.folder / part).string(); }

  void network(const char* slot, const char* part, const char* weights) {
    out[slot] = {{"use", component_name(of_.component(part))}};
    out[weights] = {path(part)};
  }

  void model() {
    network("model", "transformer", "weights");
    // NVIDIA's configurations of Predict 2 have rope_enable_fps_modulation = False; diffusers scales its time
    // positions all the same (its issue 14768).
    if (cosmos_) out["model"]["base_fps"] = scales_positions_by_rate() ? 24 : 0;
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
    if (!asked_.own_sampler && !fs::exists(file)) of_.require_all_parts();
    try {
      const json scheduler = pipeline_object(file);
      return cosmos_ ? edm_sampler(scheduler, call_.steps) : flow_sampler(scheduler, call_.steps);
    } catch (const Error& e) {
      if (asked_.own_sampler) return {{"sampler", {{"use", ""}}}, {"loss", {{"use", usual_loss()}}}};
      const std::string what = e.what();
      throw Error(e.code(), what.starts_with(file.string()) ? what : file.string() + ": " + what);
    }
  }

  bool is_predict2() const { return of_.name.starts_with("Cosmos2"); }
  bool scales_positions_by_rate() const { return cosmos_ && !is_predict2(); }

  const char* usual_loss() const {
    if (!cosmos_) return "flow";
    return is_predict2() ? "rectified-flow" : "edm";
  }

  // The defaults of the pipeline's call.
  void call() {
    out.update({{"frames", call_.frames},
                {"height", call_.height},
                {"width", call_.width},
                {"fps", call_.fps},
                {"guidance", call_.guidance},
                {"guidance_convention", cosmos_ ? "nemo" : "diffusers"}});
    if (frames_have_timesteps_) out["fps"] = 24;
    if (cosmos_ && !call_.from_text_alone) out["condition_frames"] = -1;  // all that the pipeline takes
    if (scales_positions_by_rate()) out["signals"] = {fmt::format("fps={}", call_.fps)};
    if (cosmos_) out["negative"] = kCosmosNegative;
  }

  const PublishedPipeline& of_;
  const PublishedCall& call_;
  const bool cosmos_, frames_have_timesteps_;
  const PublishedPipeline::Requester& asked_;
};

}  // namespace

json PublishedPipeline::options(const std::string& kind, const Requester& asked) const {
  FolderJob job(*this, asked);
  if (kind == "train-tokenizer")
    job.train_tokenizer();
  else if (kind == "encode")
    job.encode();
  else if (kind == "train")
    job.train();
  else
    job.generate();
  return job.out;
}

void count_pipeline(Contents& contents, json& options) {
  const fs::path folder = text_in(options, "pipeline");
  std::error_code error;
  if (folder.empty() || !fs::exists(folder / "model_index.json", error)) return;
  options["pipeline"] = "";
  if (!fs::exists(folder / "transformer_2", error)) return;
  json& counts = options["pipeline"] =
      json::array({object_in_file(folder / "model_index.json").value("boundary_ratio", json())});
  for (const char* part : {"transformer", "transformer_2"})
    if (fs::exists(folder / part, error)) counts.push_back(contents.of(folder / part));
}

}  // namespace kinora::core
