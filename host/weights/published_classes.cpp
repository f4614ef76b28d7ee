#include "host/weights/published_classes.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/facts.hpp"

namespace kinora::core {

namespace fs = std::filesystem;
using nlohmann::json;

const std::map<std::string, std::string>& published_classes() {
  static const std::map<std::string, std::string> all{
      {"WanTransformer3DModel", "model/wan"},
      {"CosmosTransformer3DModel", "model/cosmos"},
      {"AutoencoderKLWan", "tokenizer/wan"},
      {"AutoencoderKLCosmos", "tokenizer/cosmos"},
      {"UMT5EncoderModel", "model/umt5"},
      {"T5EncoderModel", "model/t5"},
      {"CLIPVisionModel", "model/clip-vision"},
      {"CLIPVisionModelWithProjection", "model/clip-vision"},
      {"CLIPTextModel", "model/clip-text"},
      {"CLIPTextModelWithProjection", "model/clip-text"},
      {"BertModel", "model/minilm"},
      {"BertForMaskedLM", "model/minilm"},
  };
  return all;
}

std::string published_class(const std::filesystem::path& config) {
  const json object = object_in_file(config);
  const json name = object.contains("_class_name") ? object["_class_name"]
                                                   : object.value("/architectures/0"_json_pointer, json());
  return name.is_string() ? name.get<std::string>() : "";
}

std::string of_another_class(const std::filesystem::path& config, const ComponentSpec& spec) {
  const auto& all = published_classes();
  const auto is_own = [&](const auto& entry) { return entry.second == spec.id; };
  const auto own = std::find_if(all.begin(), all.end(), is_own);
  const std::string name = published_class(config);
  if (name.empty() || own == all.end()) return "";
  if (const auto other = of_another_layout(config.parent_path()); name == "WanModel" && !other.empty())
    return other;
  const auto found = all.find(name);
  if (found == all.end())
    return object_in_file(config).contains("_class_name")
               ? fmt::format(
                     "{}: the network's class is {}, which Kinora does not have; {} reads the class {}",
                     config.string(), name, spec.id, own->first)
               : "";
  if (found->second == spec.id) return "";
  return fmt::format(
      "{}: the network's class is {}, which is {}, but {} is to read it; use {}, or the weights of the class "
      "{}",
      config.string(), name, found->second, spec.id, found->second, own->first);
}

namespace {

// "decoder." stands for all names that begin so, ".position_ids" for all that end so.
const std::map<std::string, std::vector<std::string>>& ignorable() {
  // spiece_model: the sentencepiece model that ComfyUI stores among the weights.
  static const std::vector<std::string> t5{"decoder.", "lm_head.weight", "encoder.embed_tokens.weight",
                                           "spiece_model"};
  static const std::map<std::string, std::vector<std::string>> all{
      {"model/t5", t5},
      {"model/umt5", t5},
      {"model/clip-text",
       {"vision_model.", "visual_projection.weight", "text_projection.weight", "logit_scale",
        ".position_ids"}},
      {"model/clip-vision",
       {"text_model.", "text_projection.weight", "visual_projection.weight", "logit_scale", ".position_ids"}},
      {"model/minilm", {"pooler.", "cls.", "classifier.", ".position_ids"}},
  };
  return all;
}

}  // namespace

bool may_be_ignored(const ComponentSpec& spec, const std::string& name) {
  const auto family = ignorable().find(spec.id);
  if (family == ignorable().end()) return false;
  return std::any_of(family->second.begin(), family->second.end(), [&](const std::string& part) {
    return part.front() == '.'  ? name.ends_with(part)
           : part.back() == '.' ? name.starts_with(part)
                                : name == part;
  });
}

namespace {

// The first file of the folder whose name ends so; empty: none.
fs::path file_with(const fs::path& folder, std::string_view ending) {
  std::set<fs::path> found;
  std::error_code ignored;
  for (fs::directory_iterator it(folder, ignored), end; it != end; it.increment(ignored))
    if (it->path().string().ends_with(ending)) found.insert(it->path());
  return found.empty() ? fs::path() : *found.begin();
}

// The repository of diffusers' layout that belongs to a folder of Wan-AI's.
std::string release_of(fs::path folder) {
  if (!folder.has_filename()) folder = folder.parent_path();
  if (const auto name = folder.filename().string(); name == "high_noise_model" || name == "low_noise_model")
    folder = folder.parent_path();
  const std::string name = folder.filename().string();
  if (!name.starts_with("Wan2")) return "*-Diffusers of the same release";
  return name + (name.find("FLF2V") == name.npos ? "-Diffusers" : "-diffusers");  // as they are spelled
}

}  // namespace

std::string of_another_layout(const fs::path& given) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(given, ignored);
  if (!is_folder && given.extension() != ".gguf") return "";
  const bool authors = is_folder && (published_class(given / "config.json") == "WanModel" ||
                                     fs::is_directory(given / "high_noise_model", ignored) ||
                                     fs::exists(given / "models_t5_umt5-xxl-enc-bf16.pth", ignored));
  if (authors) {
    fs::path weights = file_with(given, ".safetensors.index.json");
    if (weights.empty()) weights = file_with(given, ".safetensors");
    return fmt::format(
        "{} is in Wan-AI's own layout, not diffusers'; take the folder {} (Wan-AI publishes both){}",
        given.string(), release_of(given),
        weights.empty()
            ? ""
            : ", or for the transformer alone the file " + weights.string() + ", whose names are read");
  }
  const fs::path gguf = is_folder ? file_with(given, ".gguf") : given;
  if (gguf.empty() || (is_folder && !file_with(given, ".safetensors").empty())) return "";
  return fmt::format(
      "{} is GGUF (llama.cpp, ComfyUI-GGUF), which is not read; take the safetensors of the same model, in "
      "bf16, or in eight bits as ComfyUI's *_fp8_scaled.safetensors",
      gguf.string());
}

}  // namespace kinora::core
