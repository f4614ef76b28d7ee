// The likeliest reason why weights do not fit a network.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/plugin/registry.hpp"

namespace kinora::core {

// How the folder's config.json or a published size differs from the options, if the weights fit with that
// change; else the class in config.json; "" if nothing is known. options: the component's, complete. Does not
// throw.
std::string why_misfit(const Component& component, const nlohmann::json& options,
                       const std::vector<std::filesystem::path>& weights);

}  // namespace kinora::core
