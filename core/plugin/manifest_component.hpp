// One [[component]] of a manifest. Private to the manifest's parser.
#pragma once
#include "core/plugin/manifest.hpp"
#include "core/plugin/toml_reader.hpp"

namespace kinora::core {

struct Reading {
  TomlErrors& errors;
  bool known_keys;   // a key that is not known is an error
  bool known_kinds;  // a kind that is not known is an error
  Tier tier;         // of the plugin: jobs are of tier host alone, and nothing else is
};

ComponentSpec read_component(const toml::table& table, Reading reading);

// Names become file names, ids and TOML keys.
bool is_name(std::string_view name);
inline constexpr const char* name_rule = "use a-z, 0-9, '-', '_' and '.'";

// A key that is there and is a string.
bool has_text(const toml::table& table, const char* key);

}  // namespace kinora::core
