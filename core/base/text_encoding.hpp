// Text that people wrote, as UTF-8: prompts, captions, manifests, lists and tables, whatever program
// saved them.
#pragma once
#include <string>
#include <string_view>

#include "core/base/status.hpp"

namespace kinora::core {

// Says how to read bytes that are neither UTF-8 nor UTF-16.
enum class OtherBytes : uint8_t {
  windows_1252,  // one character each; a line of the log says so, once for each name
  keep           // left as they are: names of files may be any bytes
};

// The text without its byte order mark. UTF-16 and UTF-32 are recognised by theirs, UTF-16 without one by its
// zero bytes. KINORA_ERROR_DATA with the line for half a surrogate pair, a NUL byte, and bytes that are no
// character in Windows-1252 either. name: of the file, or of the sample.
Result<std::string> utf8_text(std::string bytes, std::string_view name,
                              OtherBytes other = OtherBytes::windows_1252);
// Windows-1252 as UTF-8; bytes without a character are the controls with their numbers.
std::string from_windows_1252(std::string_view bytes);

}  // namespace kinora::core
