// Which stages are Kinora's own: what they leave with a sample follows the project's conventions. Of any other nothing
// is known but what it declares.
#pragma once
#include <set>
#include <string>
#include <string_view>

#include "core/plugin/registry.hpp"

namespace kinora::core {

// By its id alone. Others may call theirs so too.
bool is_of_own_family(std::string_view id);

// Ids of stages of these families whose plugins came with the program: in its built-in folder.
std::set<std::string> own_stages(const Registry& registry);

}  // namespace kinora::core
