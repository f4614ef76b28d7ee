// What the folder of published weights says of a component's options: its config.json.
#pragma once
#include <filesystem>
#include <vector>

#include "core/plugin/option_value.hpp"
#include "core/plugin/registry.hpp"

namespace kinora::core {

// The config.json of the first folder among `weights` that has one; of a pipeline's folder that of the part
// that fits the component, of its two experts the first's. Empty: there is none. Throws kinora::Error
// (published_part).
std::filesystem::path config_of(const std::vector<std::filesystem::path>& weights, const ComponentSpec& spec);

// The options that the JSON object in `file` gives (of a folder: in its config.json, of a pipeline's in that
// of the part that fits the component): those of an option's own name, else of OptionSpec::config; types and
// ranges are checked. null is 0, "", false or [] where the option takes that. Others are ignored with one
// line that names them (unless quiet), for a published file says more than one implementation takes; what
// begins with an underscore (diffusers' _class_name) is ignored in silence. Throws kinora::Error with every
// problem, each beginning with the file.
json read_config(const std::filesystem::path& file, const ComponentSpec& spec, bool quiet = false);

// `given` and, of what it leaves out, what the configuration says (an empty path: nothing). Where both
// differ, one line says so. A published `size` that is given stands for the whole configuration. Throws
// kinora::Error.
json with_config(const ComponentSpec& spec, json given, const std::filesystem::path& config);

// The same with the configuration of these weights (config_of). Where they have none, or one that says
// nothing, and `given` no size: the published size that their tensors are of, if `given` does not fit them.
json with_weights(Registry& registry, const ComponentSpec& spec, json given,
                  const std::vector<std::filesystem::path>& weights);

}  // namespace kinora::core
