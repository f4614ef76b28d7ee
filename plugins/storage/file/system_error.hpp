// What the system said about a path, as an Error with the right code and remedy.
#pragma once
#include <string>

#include "kinora/error.hpp"

namespace kinora::file {

// `doing` as in "cannot be written"; `error` is errno. A full disk is KINORA_NO_MEMORY; what the user has to
// mend is KINORA_INVALID or KINORA_NOT_FOUND; only what may pass by itself is KINORA_IO.
Error system_error(const std::string& path, const char* doing, int error);

// The folder that holds `path`: "." for a bare name.
std::string folder_of(const std::string& path);

}  // namespace kinora::file
