// Finds the options that weights fit, and the reason why they do not fit a network, by names and shapes
// alone: networks are made on the meta device, and no value is read.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/plugin/registry.hpp"

namespace kinora::core {

struct StoredShapes {
  std::map<std::string, std::vector<int64_t>> shapes;  // keyed by the files' own names
  bool more_is_fine = false;                           // unused tensors do not count as a misfit
};
// Shapes of the tensors in files and folders of weights. Throws kinora::Error.
StoredShapes stored_shapes(const std::vector<std::filesystem::path>& weights, const ComponentSpec& spec);

// Whether the network with these options has these tensors and no other required ones.
bool would_fit(const Component& component, const nlohmann::json& options, const StoredShapes& stored);

// Returns `given` if the weights fit it. Otherwise, with one log line, `given` with the published `size` that
// the weights have, and with one more channel in in_channels if they have one for a condition mask. Returns
// `given` too if no size fits; loading then reports why. If several fit, as NVIDIA's CV8x8x8 and CV8x16x16
// do, takes the one that a path names; throws kinora::Error(KINORA_ERROR_INVALID) if none does.
nlohmann::json with_fitting_size(const Component& component, const nlohmann::json& given,
                                 const std::vector<std::filesystem::path>& weights);

// The likeliest reason why weights do not fit a network: how the folder's config.json or a published size
// differs from the options, if the weights fit with that change; else the class in config.json; "" if nothing
// is known. options: the component's, complete. Does not throw.
std::string why_misfit(const Component& component, const nlohmann::json& options,
                       const std::vector<std::filesystem::path>& weights);

}  // namespace kinora::core
