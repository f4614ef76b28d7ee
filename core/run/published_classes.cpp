#include "core/run/published_classes.hpp"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kinora::core {
namespace {

using nlohmann::json;

json config_object(const std::filesystem::path& config) {
  std::ifstream in(config, std::ios::binary);
  const json out = json::parse(in, nullptr, false);
  return out.is_object() ? out : json::object();
}

}  // namespace

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
  const json object = config_object(config);
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
  const auto found = all.find(name);
  if (found == all.end())
    return config_object(config).contains("_class_name")
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

}  // namespace kinora::core
