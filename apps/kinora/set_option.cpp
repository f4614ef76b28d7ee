#include "apps/kinora/set_option.hpp"

#include <filesystem>

#include "core/config/document.hpp"
#include "core/run/apply_config.hpp"
#include "core/run/apply_published.hpp"

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

void complete_options(const core::ComponentSpec& spec, std::string config, const std::string& weights,
                      nlohmann::json& options) {
  if (config.empty() && !weights.empty() && std::filesystem::is_directory(weights)) {
    const auto file = core::published_part(weights, spec) / "config.json";
    if (std::filesystem::exists(file)) config = file.string();
  }
  if (config.empty()) return;
  const auto found = core::read_config(config, spec);
  for (const auto& [name, value] : found.items())
    if (!options.contains(name)) options[name] = value;
}

nlohmann::json options_of(const core::ComponentSpec& spec, const std::vector<std::string>& sets,
                          const std::string& weights) {
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
  complete_options(spec, config, weights, out);
  return out;
}

}  // namespace kinora
