#include "plugins/storage/http/address.hpp"

#include <algorithm>

#include "kinora/error.hpp"

namespace kinora::web {
namespace {

// Not std::isalnum, which depends on the locale.
bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// Letters of foreign names are above 127; libcurl encodes them.
bool is_of_host(char c) {
  return is_letter_or_digit(c) || static_cast<unsigned char>(c) > 127 ||
         std::string_view("-._:[]").find(c) != std::string_view::npos;
}

// The characters of a path by RFC 3986, as they are.
std::string encoded_path(std::string_view path) {
  constexpr const char* kHex = "0123456789ABCDEF";
  constexpr std::string_view kPlain = "/-._~!$&'()*+,;=:@";
  std::string out;
  for (size_t i = 0; i < path.size(); ++i) {
    const char c = path[i];
    const bool is_code = c == '%' && i + 2 < path.size() && is_hex(path[i + 1]) && is_hex(path[i + 2]);
    if (is_letter_or_digit(c) || is_code || kPlain.find(c) != kPlain.npos) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

}  // namespace

Address address_of(std::string_view scheme, std::string_view path) {
  const std::string before = std::string(scheme) + "://";
  const std::string_view host = path.substr(0, path.find('/'));
  if (host.empty() || !std::all_of(host.begin(), host.end(), is_of_host))
    throw Error(KINORA_ERROR_INVALID, before + std::string(path) + ": '" + std::string(host) +
                                          "' is not the name of a server; write " + before + "HOST/FOLDER");
  const std::string_view file = path.substr(host.size());
  return {before + std::string(path), before + std::string(host) + (file.empty() ? "/" : encoded_path(file))};
}

}  // namespace kinora::web
