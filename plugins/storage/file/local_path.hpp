// Paths of this machine: from the user's text, and the errors of the system about them.
#pragma once
#include <string>
#include <string_view>

#include "kinora/error.hpp"

namespace kinora::file {

// "/data/a b" and "a b" are unchanged; "file:///data/a%20b" and "file://localhost/data/a%20b" become "/data/a
// b". Throws Error.
std::string local_path(std::string_view path);

// Turns an error of the system about a path into an Error with the right code and remedy.
// `doing` as in "cannot be written"; `error` is errno. A full disk is KINORA_ERROR_NO_MEMORY; an error that
// the user has to fix is KINORA_ERROR_INVALID or KINORA_ERROR_NOT_FOUND; only one that may pass by itself is
// KINORA_ERROR_IO.
Error system_error(const std::string& path, const char* doing, int error);

// The folder that contains `path`: "." for a bare name.
std::string folder_of(const std::string& path);

}  // namespace kinora::file
