// Turns an error of the system about a path into an Error with the right code and remedy.
#pragma once
#include <string>

#include "kinora/error.hpp"

namespace kinora::file {

// `doing` as in "cannot be written"; `error` is errno. A full disk is KINORA_NO_MEMORY; an error that the user has to
// fix is KINORA_INVALID or KINORA_NOT_FOUND; only one that may pass by itself is KINORA_IO.
Error system_error(const std::string& path, const char* doing, int error);

// The folder that contains `path`: "." for a bare name.
std::string folder_of(const std::string& path);

}  // namespace kinora::file
