// What an error may show of a server's answer.
#pragma once
#include <string>
#include <string_view>

namespace kinora::endpoint {

// The first 200 characters of `body` in one line of valid UTF-8, the key in it hidden: whole, or the
// beginning that servers repeat when they refuse it ("sk-abcd****").
std::string shown(std::string_view body, std::string_view key);

}  // namespace kinora::endpoint
