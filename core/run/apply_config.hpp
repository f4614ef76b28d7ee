// A published configuration as options of a component: `kinora apply --set config=FILE.json`.
#pragma once
#include <filesystem>

#include "core/option_value.hpp"
#include "core/plugin/manifest.hpp"

namespace kinora::core {

// The members of the JSON object in `file` (of a folder: in its config.json, of a pipeline's in that of the
// part that fits the component) that are options of the component; types and ranges are checked. Others are
// ignored with one warning that names them, as are nulls, for a published file says more than one
// implementation takes; what begins with an underscore (diffusers' _class_name) is ignored in silence. Throws
// kinora::Error with every problem, each beginning with the file.
json read_config(const std::filesystem::path& file, const ComponentSpec& spec);

}  // namespace kinora::core
