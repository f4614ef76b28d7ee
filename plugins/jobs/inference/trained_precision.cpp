#include "plugins/jobs/inference/trained_precision.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/base/quantity.hpp"
#include "core/torch/chain/rounded_layers.hpp"
#include "host/weights/packed_matrix.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

// Number of these weights that the chain rounds. A name that it does not have, as in a file of another naming
// scheme, counts as rounded.
int64_t rounded_of(const std::set<std::string>& names, const Chain& chain) {
  std::set<std::string> high;
  for (const auto& p : chain.parameters()) high.insert(p.name);
  for (const auto& name : rounded_layers(chain).value_or(std::vector<std::string>())) high.erase(name);
  return std::count_if(names.begin(), names.end(), [&](const auto& name) { return !high.contains(name); });
}

// ", static_6 in 16x16"; "" without a rule.
std::string text_of(const std::string& scale_rule, const std::string& block) {
  return scale_rule.empty() ? "" : fmt::format(", {:.16} in {:.16}", scale_rule, block);
}

}  // namespace

json rule_of_weights(const ComponentUse* precision) {
  if (!precision || precision->id != "precision/nvfp4") return json::object();
  const json& o = precision->options.values();
  return {{"scale_rule", o.at("weights")}, {"block", o.at("square_weights").get<bool>() ? "16x16" : "1x16"}};
}

std::string other_precision(const WeightsPaths& weights, const ComponentUse& precision, const Chain& chain) {
  const json own = rule_of_weights(&precision);
  const std::string own_rule = own.value("scale_rule", ""), own_block = own.value("block", "");
  for (const auto& path : weights) {
    const auto file = Safetensors::open(path);
    if (!file || !file->metadata().contains("low_weights")) continue;
    const auto noted = low_weights_of(*file);
    if (!noted) continue;
    const auto all = static_cast<int64_t>(noted->names.size()), low = rounded_of(noted->names, chain);
    if (low == all && noted->scale_rule == own_rule && noted->block == own_block) return "";
    return fmt::format("{} is noted as {} ({} low{}), and this job generates in {} ({} of them low{})",
                       path.string(),
                       noted->scale_rule.empty() ? "a precision of few bits, such as fp8" : "nvfp4",
                       counted(all, "weight", "weights"), text_of(noted->scale_rule, noted->block),
                       precision.called(), low, text_of(own_rule, own_block));
  }
  return "";
}

}  // namespace kinora::core
