// Makes text valid UTF-8, as JSON requires.
#pragma once
#include <string>
#include <string_view>

namespace kinora::core {

// Replaces each byte that is not UTF-8 by U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace kinora::core
