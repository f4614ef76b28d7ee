// A kind of job as its manifest in the source tree describes it; its library need not be built.
#pragma once
#include <fstream>
#include <map>
#include <sstream>

#include "core/plugin/manifest.hpp"

namespace kinora::test {

inline const core::ComponentSpec* shipped_job(const std::string& name) {
  static std::map<std::string, core::PluginSpec> all;
  const auto [at, is_new] = all.try_emplace(name);
  if (is_new) {
    const std::string file = std::string(KINORA_TEST_DATA) + "/../../plugins/jobs/" + name + "/plugin.toml";
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    at->second = core::or_throw(core::parse_manifest(text.str(), file));
  }
  return &at->second.components.at(0);
}

}  // namespace kinora::test
