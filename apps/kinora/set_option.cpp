#include "apps/kinora/set_option.hpp"

#include "core/config/document.hpp"
#include "core/run/weights.hpp"

namespace kinora {

SetOption parse_set(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Error(KINORA_INVALID, "--set " + text + ": expected NAME=VALUE");
  SetOption out{text.substr(0, equals), {}, text.substr(equals + 1)};
  auto parsed = core::Document::parse("v = " + out.text, "--set");
  out.value = parsed ? parsed->root().value("v", nlohmann::json(out.text)) : nlohmann::json(out.text);
  if (out.value.is_string()) out.text = out.value.get<std::string>();
  return out;
}

void complete_options(core::Registry& registry, const core::ComponentSpec& spec, const std::string& config,
                      const std::string& weights, nlohmann::json& options) {
  if (!config.empty())
    options = core::with_config(spec, std::move(options), config);
  else if (!weights.empty())
    options = core::with_weights(registry, spec, std::move(options), {weights});
}

nlohmann::json options_of(core::Registry& registry, const core::ComponentSpec& spec,
                          const std::vector<std::string>& sets, const std::string& weights) {
  nlohmann::json out = nlohmann::json::object();
  std::string config;
  for (const auto& set : sets) {
    const auto [name, value, text] = parse_set(set);
    if (name == "config" && !spec.option(name)) {
      config = text;
    } else {
      out[name] = value;
    }
  }
  complete_options(registry, spec, config, weights, out);
  return out;
}

}  // namespace kinora
