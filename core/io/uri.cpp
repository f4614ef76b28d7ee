#include <cctype>

#include "core/io/io.hpp"
#include "core/base/paths.hpp"

namespace kinora::core {
namespace {

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool coded =
        text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0;
    out += coded ? static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2])) : text[i];
    if (coded) i += 2;
  }
  return out;
}

}  // namespace

Result<Uri> parse_uri(std::string_view text) {
  if (text.empty())
    return fail(KINORA_INVALID, "an empty path; give a file, or a URI such as s3://bucket/key");
  if (text.find('\0') != text.npos) return fail(KINORA_INVALID, "a path with a NUL byte in it");
  if (text.starts_with("asset:")) {
    const auto found = find_asset(text.substr(6));
    if (!found) return found.failure();
    return Uri{"file", found->string()};
  }
  const auto at = text.find("://");
  if (at == text.npos || at == 0) return Uri{"file", std::string(text)};
  std::string scheme;
  for (const char c : text.substr(0, at)) {
    // Not a scheme but an odd file name.
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '+' && c != '-' && c != '.')
      return Uri{"file", std::string(text)};
    scheme += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  const auto rest = text.substr(at + 3);
  if (scheme != "file") return Uri{scheme, std::string(rest)};
  const auto path = rest.starts_with("localhost/") ? rest.substr(9) : rest;
  if (!path.starts_with('/'))
    return fail(KINORA_INVALID, "{}: a file URI has three slashes, file:///folder/name", text);
  return Uri{"file", percent_decoded(path)};
}

}  // namespace kinora::core
