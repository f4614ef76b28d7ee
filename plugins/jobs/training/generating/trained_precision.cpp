#include "plugins/jobs/training/generating/trained_precision.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/base/quantity.hpp"
#include "core/io/safetensors.hpp"
#include "core/torch/context/rounded_layers.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

// A note of the metadata; null if there is none, or no JSON.
json noted(const SafeMetadata& metadata, const char* key) {
  const auto it = metadata.find(key);
  const json out = it == metadata.end() ? json() : json::parse(it->second, nullptr, false);
  return out.is_discarded() ? json() : out;
}

// ", static_6 in 16x16"; "" without a rule. The file may hold any text.
std::string text_of(const json& rule) {
  if (!rule.is_object() || rule.empty()) return "";
  const auto word = [&](const char* key) {
    const json value = rule.value(key, json());
    return value.is_string() ? value.get<std::string>() : "?";
  };
  return fmt::format(", {:.16} in {:.16}", word("scale_rule"), word("block"));
}

}  // namespace

json rule_of_weights(const ComponentUse* precision) {
  if (!precision || precision->id != "precision/nvfp4") return json::object();
  const json& o = precision->options.values();
  return {{"scale_rule", o.at("weights")}, {"block", o.at("square_weights").get<bool>() ? "16x16" : "1x16"}};
}

std::string other_precision(const WeightsPaths& weights, const ComponentUse& precision, const Chain& chain) {
  for (const auto& path : weights) {
    const auto file = Safetensors::open(path);
    const json low = file ? noted(file->metadata(), "low_weights") : json();
    if (!low.is_array()) continue;
    const auto named = file->metadata().find("low_precision");
    const std::string trained = named == file->metadata().end() ? "few bits" : named->second,
                      own = precision.called();
    const json rule = noted(file->metadata(), "low_rule"), own_rule = rule_of_weights(&precision);
    const auto names = rounded_layers(chain).value_or(std::vector<std::string>());
    const std::set<std::string> here(names.begin(), names.end());
    const auto same = std::count_if(low.begin(), low.end(), [&](const json& name) {
      return name.is_string() && here.contains(name.get<std::string>());
    });
    if (static_cast<size_t>(same) == low.size() && trained == own &&
        (rule.is_null() ? json::object() : rule) == own_rule)
      return "";
    return fmt::format("{} was trained in {:.64} ({} low{}), and this job generates in {} ({} of them low{})",
                       path.string(), trained, counted(static_cast<int64_t>(low.size()), "weight", "weights"),
                       text_of(rule), own, same, text_of(own_rule));
  }
  return "";
}

}  // namespace kinora::core
