// Identifies Kinora's own stages: the fields that they set follow the project's conventions. About other stages only
// their declarations are known.
#pragma once
#include <set>
#include <string>
#include <string_view>

#include "core/plugin/registry.hpp"

namespace kinora::core {

// Judges by the id alone, which a third party's stage may also use.
bool is_of_own_family(std::string_view id);

// Ids of stages of these families whose plugins came with the program: in its built-in folder.
std::set<std::string> own_stages(const Registry& registry);

}  // namespace kinora::core
