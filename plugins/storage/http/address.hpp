// The address of a file of a web server.
#pragma once
#include <string>
#include <string_view>

namespace kinora::web {

struct Address {
  std::string uri;  // as the user wrote it, for messages
  std::string url;  // of requests: what a URL cannot contain is %XX
};

// path: "HOST/FILE", as it follows "http://". %XX in it stays as it is. Throws Error(KINORA_ERROR_INVALID) if no server
// can have such a name.
Address address_of(std::string_view scheme, std::string_view path);

}  // namespace kinora::web
