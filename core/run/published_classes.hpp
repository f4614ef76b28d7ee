// The class that a published network's config.json names, and Kinora's component for it.
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "core/plugin/manifest.hpp"

namespace kinora::core {

// Class of diffusers or transformers -> KIND/NAME of the component: "AutoencoderKLWan" -> "tokenizer/wan".
const std::map<std::string, std::string>& published_classes();

// The class in a config.json: its _class_name, else the first of its architectures. "" if the file cannot be
// read or names none.
std::string published_class(const std::filesystem::path& config);

// Why this config.json belongs to another network than the component, with what to use; "" if it does not.
// Only components of published_classes() are compared. A class that is unknown counts as another one if it
// is diffusers' (_class_name); transformers writes many classes for the same weights (architectures).
std::string of_another_class(const std::filesystem::path& config, const ComponentSpec& spec);

}  // namespace kinora::core
