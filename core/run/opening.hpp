// Opens components, and says in the log which plugin a command waits for.
#pragma once
#include <string_view>

#include "core/plugin/registry.hpp"

namespace kinora::core {

// Registry::open(), or its failure as an Error. A plugin's static constructors and entry may block for ever:
// after so many seconds the log names the plugin, once.
Component open_component(Registry&, std::string_view kind, std::string_view name, double seconds = 10);

}  // namespace kinora::core
