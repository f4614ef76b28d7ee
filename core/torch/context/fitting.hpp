// Which options weights fit, by their names and shapes alone.
#pragma once
#include <filesystem>
#include <map>
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

// Whether the network of these options has these tensors and no others that count.
bool would_fit(const Component& component, const nlohmann::json& options, const StoredShapes& stored);

// `given` where the weights fit it. Else, with one log line, `given` with the published `size` that they are
// of, and with one more of in_channels if they have a condition mask's. `given` too if no size fits: loading
// says why. Of several that fit, as NVIDIA's CV8x8x8 and CV8x16x16 do, the one that a path names; throws
// kinora::Error(KINORA_INVALID) if none does.
nlohmann::json with_fitting_size(const Component& component, const nlohmann::json& given,
                                 const std::vector<std::filesystem::path>& weights);

}  // namespace kinora::core
