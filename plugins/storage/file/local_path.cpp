#include "plugins/storage/file/local_path.hpp"

#include "kinora/error.hpp"

namespace kinora::file {
namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const bool enough = i + 2 < text.size();
    const int high = enough ? digit(text[i + 1]) : -1, low = enough ? digit(text[i + 2]) : -1;
    if (high < 0 || low < 0)
      throw Error(
          KINORA_INVALID,
          std::string(text) + ": '%' needs two hexadecimal digits after it; write %25 for a percent sign");
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

}  // namespace

std::string local_path(std::string_view path) {
  constexpr std::string_view kScheme = "file://", kHost = "localhost";
  std::string out(path);
  if (path.starts_with(kScheme)) {
    std::string_view rest = path.substr(kScheme.size());
    if (rest.starts_with(kHost)) rest.remove_prefix(kHost.size());
    if (!rest.starts_with('/'))
      throw Error(
          KINORA_INVALID,
          std::string(path) + ": a file URI has three slashes before an absolute path, as in file:///data/a");
    out = percent_decoded(rest);
  }
  if (out.empty()) throw Error(KINORA_INVALID, "the path of a file is empty");
  if (out.find('\0') != std::string::npos)
    throw Error(KINORA_INVALID, "the path of a file contains a NUL character");
  return out;
}

}  // namespace kinora::file
