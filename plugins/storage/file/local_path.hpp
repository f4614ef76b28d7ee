// Converts the user's text to a path of this machine.
#pragma once
#include <string>
#include <string_view>

namespace kinora::file {

// "/data/a b" and "a b" are unchanged; "file:///data/a%20b" and "file://localhost/data/a%20b" become "/data/a b".
// Throws Error.
std::string local_path(std::string_view path);

}  // namespace kinora::file
