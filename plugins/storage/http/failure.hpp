// The meaning of an unsuccessful answer of a web server: whether another try may help, and the message for the user.
#pragma once
#include <cstdint>
#include <string>

#include "kinora/error.hpp"
#include "plugins/storage/ranged/http.hpp"

namespace kinora::web {

// Whether the same request may succeed later.
bool is_worth_repeating(const ranged::HttpAnswer& answer);
// "HTTP 503", or what libcurl says.
std::string cause_of(const ranged::HttpAnswer& answer);
// uri: of the file. tries: number of attempts.
Error failure(const std::string& uri, const ranged::HttpAnswer& answer, int64_t tries);

}  // namespace kinora::web
