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

// Whether weights may hold this tensor although the component has no such parameter: the list of what published
// files of the component's family carry besides, such as the decoder of a T5 of which the encoder is read. Any
// other tensor has a meaning that is not known, so it is an error. name: in the component's own layout.
bool may_be_ignored(const ComponentSpec& spec, const std::string& name);

// The reason why a folder or file of weights is not read as it is, with what to take instead: Wan-AI's own
// layout, or GGUF. "" if it is neither.
std::string of_another_layout(const std::filesystem::path& given);

}  // namespace kinora::core
