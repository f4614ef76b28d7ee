// Which options weights fit, by their names and shapes alone.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/plugin/registry.hpp"

namespace kinora::core {

struct StoredShapes {
  std::map<std::string, std::vector<int64_t>> shapes;  // by the files' own names
  bool more_is_fine = false;                           // tensors without a use are no misfit
};
// Of files and folders of weights. Throws kinora::Error.
StoredShapes stored_shapes(const std::vector<std::filesystem::path>& weights, const ComponentSpec& spec);

// How many of the tensors have no use in the network of these options; nothing if it does not fit them, or if
// there is no such network.
std::optional<size_t> left_over(const Component& component, const nlohmann::json& options,
                                const StoredShapes& stored);

// `given` where the weights fit it. Else, with one log line, `given` with the published `size` that they are
// of, and with one more of in_channels if they have a condition mask's. `given` too if no size fits: loading
// says why. Throws kinora::Error(KINORA_INVALID) if several do.
nlohmann::json with_fitting_size(const Component& component, const nlohmann::json& given,
                                 const std::vector<std::filesystem::path>& weights);

}  // namespace kinora::core
