#include "core/run/own_stages.hpp"

#include <algorithm>
#include <array>

namespace kinora::core {

namespace fs = std::filesystem;

bool is_of_own_family(std::string_view id) {
  constexpr std::array<std::string_view, 8> kFamilies{"video", "film",  "shots",   "clip",
                                                      "embed", "filter", "caption", "dedup"};
  const std::string_view name = id.substr(id.find('/') + 1), family = name.substr(0, name.find('.'));
  return std::find(kFamilies.begin(), kFamilies.end(), family) != kFamilies.end();
}

std::set<std::string> own_stages(const Registry& registry) {
  std::set<std::string> out;
  std::error_code error;
  const fs::path built_in = fs::canonical(search_folders({}).back().path, error);
  for (const auto& plugin : registry.plugins()) {
    if (error || plugin.folder.parent_path() != built_in || plugin.state == PluginState::shadowed) continue;
    for (const auto& component : plugin.spec.components)
      if (component.kind == "stage" && is_of_own_family(component.id) && !plugin.shadowed.contains(component.id))
        out.insert(component.id);
  }
  return out;
}

}  // namespace kinora::core
