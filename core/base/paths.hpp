// Finds this program and its files.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/base/status.hpp"

namespace kinora::core {

// Folder of the running executable, links resolved.
std::filesystem::path executable_folder();

// Folder of libkinora, as the process has opened it.
std::filesystem::path library_folder();

// Folder of the program `kinora`: of this one, or of the one that is installed with the libkinora that
// another program has loaded.
std::filesystem::path program_folder();

// The variable's value, "" if it is not set.
std::string environment(const char* name);

// "a:b::c" -> {a, b, c}.
std::vector<std::filesystem::path> split_paths(std::string_view list);

// Why a file or folder must not be trusted with code, or "". It, every folder above it and every link on the
// way must belong to root, to this user or to the program's owner, and no one else may write to it. A group
// of the owner alone may (Debian creates one for every user), and root's. Sticky folders (/tmp) are an
// exception, but what does not exist yet in one is not trusted, since anyone may create it. passed: folders that
// need no second look, for many paths at once; those that pass are added.
using PassedFolders = std::unordered_set<std::string>;
std::string why_untrusted(const std::filesystem::path& path, PassedFolders* passed = nullptr);

// "asset:minilm/model.safetensors": found in the first folder of KINORA_ASSETS that has it, else in
// ../share/kinora/assets next to the program. `name` is the part after "asset:".
Result<std::filesystem::path> find_asset(std::string_view name);

}  // namespace kinora::core
