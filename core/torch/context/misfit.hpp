// The likeliest reason why weights do not fit a network.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/plugin/registry.hpp"

namespace kinora::core {

// What the folder's config.json or a published size would say otherwise, if the weights fit then; else the
// class that the folder is of; "" if nothing is known. options: the component's, complete. Throws nothing.
std::string why_misfit(const Component& component, const nlohmann::json& options,
                       const std::vector<std::filesystem::path>& weights);

}  // namespace kinora::core
