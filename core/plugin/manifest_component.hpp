// One [[component]] of a manifest. Private to the manifest's parser.
#pragma once
#include "core/plugin/manifest.hpp"
#include "core/plugin/toml_reader.hpp"

namespace kinora::core {

struct Reading {
  TomlErrors& errors;
  bool known_keys;   // an unknown key is an error
  bool known_kinds;  // an unknown kind is an error
  Tier tier;         // tier of the plugin: jobs, and only jobs, belong to tier host
};

ComponentSpec read_component(const toml::table& table, Reading reading);

// Names become file names, ids and TOML keys.
bool is_name(std::string_view name);
inline constexpr const char* name_rule = "use a-z, 0-9, '-', '_' and '.'";

// A key that exists and is a string.
bool has_text(const toml::table& table, const char* key);

}  // namespace kinora::core
