// Where this program and its files are.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.hpp"

namespace kinora::core {

// Folder of the running executable, links resolved.
std::filesystem::path executable_folder();

// The variable's value, "" if it is not set.
std::string environment(const char* name);

// "a:b::c" -> {a, b, c}.
std::vector<std::filesystem::path> split_paths(std::string_view list);

// Why a file or folder must not be trusted with code, or "". It, every folder above it and every link on the way must
// belong to root, to this user or to the program's owner, and nobody else may write it, but for sticky folders (/tmp), where
// what is not there yet is not trusted: anybody may make it.
std::string why_untrusted(const std::filesystem::path& path);

// "asset:minilm/model.safetensors": the first of the folders of KINORA_ASSETS, then ../share/kinora/assets
// beside the executable, that has it. `name` is what follows "asset:".
Result<std::filesystem::path> find_asset(std::string_view name);

}  // namespace kinora::core
