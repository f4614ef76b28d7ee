// A component from its [[component]] alone, for tests of components that describe themselves.
#pragma once
#include <string>

#include "core/plugin/kinds.hpp"
#include "core/plugin/manifest.hpp"
#include "kinora/error.hpp"

namespace kinora::test {

// text: without the line `interface`, which is this Kinora's. Throws kinora::Error on an error or a warning of
// the manifest, and if this Kinora cannot use the component.
inline core::ComponentSpec component(std::string text) {
  const std::string id = "id = \"";
  if (const auto at = text.find(id); at != text.npos) {
    const auto kind = text.substr(at + id.size(), text.find('/', at) - at - id.size());
    if (const auto* known = core::find_kind(kind))
      text.insert(at, "interface = \"" + std::string(known->interface) + "\"\n");
  }
  auto plugin = core::or_throw(core::parse_manifest(
      "[plugin]\nmanifest = 1\nname = \"made-up\"\nversion = \"1\"\nabi = \"1.0\"\ntier = \"stable\"\n" +
          text,
      "made-up"));
  auto& only = plugin.components.at(0);
  if (!plugin.warnings.empty()) throw Error(KINORA_ERROR_INVALID, plugin.warnings[0]);
  if (!only.unusable.empty()) throw Error(KINORA_ERROR_INVALID, only.unusable);
  return std::move(only);
}

}  // namespace kinora::test
