// Files that people wrote.
#pragma once
#include <string>
#include <string_view>

#include "core/base/text_encoding.hpp"

namespace kinora::core {

// The text of a file, at most `limit` bytes, by utf8_text().
Result<std::string> read_text_file(std::string_view uri, uint64_t limit,
                                   OtherBytes other = OtherBytes::windows_1252);

}  // namespace kinora::core
