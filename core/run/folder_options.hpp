// Reads a component's options from config.json in the folder of published weights.
#pragma once
#include <filesystem>
#include <vector>

#include "core/plugin/option_value.hpp"
#include "core/plugin/registry.hpp"

namespace kinora::core {

// The config.json of the first folder among `weights` that has one. For a pipeline's folder, that of the part that
// fits the component; for two experts, that of the first. Empty: none. Throws kinora::Error (published_part).
std::filesystem::path config_of(const std::vector<std::filesystem::path>& weights, const ComponentSpec& spec);

// The options in the JSON object in `file` (for a folder: in its config.json; for a pipeline's folder: in that of the
// part that fits the component). A member maps to the option of its name, else by OptionSpec::config; types and
// ranges are checked. null means 0, "", false or [] if the option accepts that. Unknown members are ignored with
// one log line that names them (unless quiet), because published files have members that one implementation does not
// need. Names that begin with an underscore (diffusers' _class_name) are ignored silently. Throws kinora::Error with
// every problem, each beginning with the file.
json read_config(const std::filesystem::path& file, const ComponentSpec& spec, bool quiet = false);

// `given`, completed by the configuration (an empty path: by nothing). One log line lists the values that differ. A
// published `size` in `given` replaces the whole configuration. Throws kinora::Error.
json with_config(const ComponentSpec& spec, json given, const std::filesystem::path& config);

// The same with the configuration of these weights (config_of). If they have none, or an empty one, and `given` has no
// size and does not fit their tensors: the published size that fits.
json with_weights(Registry& registry, const ComponentSpec& spec, json given,
                  const std::vector<std::filesystem::path>& weights);

}  // namespace kinora::core
