// --set NAME=VALUE and what a published configuration adds to it: apply, inspect and convert take options
// alike.
#pragma once
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/plugin/registry.hpp"

namespace kinora {

struct SetOption {
  std::string name;
  nlohmann::json value;  // as TOML would read it, else a string
  std::string text;      // the value as a path or word
};
// Throws kinora::Error(KINORA_INVALID).
SetOption parse_set(const std::string& text);

// The members of the configuration that `options` does not have. config: a file or folder, or "": what the
// weights say (core::with_weights).
void complete_options(core::Registry& registry, const core::ComponentSpec& spec, const std::string& config,
                      const std::string& weights, nlohmann::json& options);

// Options of --set, `config=` among them, completed.
nlohmann::json options_of(core::Registry& registry, const core::ComponentSpec& spec,
                          const std::vector<std::string>& sets, const std::string& weights = "");

}  // namespace kinora
