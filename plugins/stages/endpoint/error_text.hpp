// Excerpts of servers' answers that are safe to show in errors.
#pragma once
#include <string>
#include <string_view>

namespace kinora::endpoint {

// Returns the first 200 characters of `body` as one line of valid UTF-8. Hides the key, both whole and in the
// shortened form in which servers repeat a refused key ("sk-abcd****").
std::string shown(std::string_view body, std::string_view key);

}  // namespace kinora::endpoint
