// A component from its [[component]] alone, for tests of components that describe themselves.
#pragma once
#include <string>

#include "core/plugin/manifest.hpp"
#include "kinora/error.hpp"

namespace kinora::test {

// The component may be of any kind and interface. Throws kinora::Error on an error or a warning of the
// manifest.
inline core::ComponentSpec component(const std::string& text) {
  auto plugin = core::or_throw(core::parse_manifest(
      "[plugin]\nmanifest = 1\nname = \"made-up\"\nversion = \"1\"\nabi = \"1.0\"\ntier = \"stable\"\n" +
          text,
      "made-up"));
  auto& only = plugin.components.at(0);
  if (!plugin.warnings.empty()) throw Error(KINORA_ERROR_INVALID, plugin.warnings[0]);
  only.unusable.clear();
  return std::move(only);
}

}  // namespace kinora::test
