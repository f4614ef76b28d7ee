// Text that goes into JSON has to be UTF-8.
#pragma once
#include <string>
#include <string_view>

namespace kinora::core {

// Bytes that are no UTF-8 become U+FFFD each.
std::string valid_utf8(std::string_view text);

}  // namespace kinora::core
