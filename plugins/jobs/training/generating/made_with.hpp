// Records what a video was made with, digests of the weights and versions of the components, and compares two
// such records.
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "plugins/jobs/training/generating/parts.hpp"

namespace kinora::core {

// {"weights": {SLOT: "sha256:..."}, "components": {SLOT: {"id", "version"}}}. kept: see weights_digest().
nlohmann::json made_with(const JobContext&, const std::map<std::string, Part>& parts,
                         const std::filesystem::path& kept);

// A list such as "weights of model (sha256:0123abcd..., here sha256:4567cdef...)"; "" if everything in `then`
// is the same now. Members that `then` lacks are not compared.
std::string differences(const nlohmann::json& then, const nlohmann::json& now);

}  // namespace kinora::core
