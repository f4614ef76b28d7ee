// kinora inspect FOLDER: describes a published pipeline, its size, and the command that runs it.
#pragma once
#include <filesystem>

#include <nlohmann/json.hpp>

namespace kinora {

// {"pipeline", "makes", "begins_with", "parts": [{"name", "component", "parameters", "bytes", "dtypes"}],
// "bytes", "memory":
// {"weights", "weights_one_expert"}, "defaults": {...}, "command"}. Reads configurations and headers only.
// Throws Error.
nlohmann::json pipeline_facts(const std::filesystem::path& folder);
std::string pipeline_text(const nlohmann::json& facts);

}  // namespace kinora
