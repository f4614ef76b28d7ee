// --set NAME=VALUE and the options that a published configuration adds to it, shared by apply, inspect and
// convert.
#pragma once
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/plugin/registry.hpp"

namespace kinora {

struct SetOption {
  std::string name;
  nlohmann::json value;  // as parsed by TOML, else a string
  std::string text;      // the value as a path or word
};
// Throws kinora::Error(KINORA_INVALID).
SetOption parse_set(const std::string& text);

// Adds the members of the configuration that `options` lacks. config: a file or folder, or "": the configuration stored
// with the weights (core::with_weights).
void complete_options(core::Registry& registry, const core::ComponentSpec& spec, const std::string& config,
                      const std::string& weights, nlohmann::json& options);

// The options of --set, `config=` included, completed.
nlohmann::json options_of(core::Registry& registry, const core::ComponentSpec& spec,
                          const std::vector<std::string>& sets, const std::string& weights = "");

}  // namespace kinora
