// The disk of a server's folder, when it is full.
#pragma once
#include <exception>
#include <filesystem>

#include "apps/serve/api_error.hpp"

namespace kinora::serve {

// Whether e came of a full disk: by its own words, or because no file of the folder can grow now.
bool is_of_full_disk(const std::exception& e, const std::filesystem::path& folder);

// No file of the folder can grow now.
bool is_disk_full(const std::filesystem::path& folder);

// 507 with the code `disk_full`.
ApiError disk_full(const std::filesystem::path& folder);

}  // namespace kinora::serve
