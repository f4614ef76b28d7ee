#include "plugins/storage/file/local_path.hpp"

#include <cerrno>
#include <system_error>

#include "kinora/error.hpp"

namespace kinora::file {
namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// RFC 3986, section 2.1. Only URIs are decoded: in a plain path '%' is a character like others.
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
          KINORA_ERROR_INVALID,
          std::string(text) + ": '%' needs two hexadecimal digits after it; write %25 for a percent sign");
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

struct Remedy {
  int32_t code;
  std::string text;
};

// A full device and a used-up quota have the ABI's code for missing room, NO_MEMORY. IO means that nothing is
// known to be wrong with the request itself.
Remedy remedy(const std::string& path, int error) {
  const std::string folder = folder_of(path);
  switch (error) {
    case ENOSPC:
      return {KINORA_ERROR_NO_MEMORY,
              "the device of '" + folder + "' is full; free space there, or choose another folder"};
    case EDQUOT:
      return {KINORA_ERROR_NO_MEMORY,
              "your quota on the device of '" + folder + "' is used up; free space there, or raise it"};
    case EACCES:
    case EPERM:
      return {KINORA_ERROR_INVALID,
              "permission is missing in '" + folder + "'; grant it, or choose another folder"};
    case EROFS:
      return {KINORA_ERROR_INVALID,
              "'" + folder + "' is on a read-only device; remount it for writing, or choose another folder"};
    case ENOENT:
      return {KINORA_ERROR_NOT_FOUND, "no such file or folder; check the path"};
    case ENOTDIR:
      return {KINORA_ERROR_INVALID, "a part of the path is a file, not a folder; check the path"};
    case EISDIR:
      return {KINORA_ERROR_INVALID, "it is a folder; give the path of a file"};
    case ENAMETOOLONG:
      return {KINORA_ERROR_INVALID, "the name is too long for this file system; shorten it"};
    case ELOOP:
      return {KINORA_ERROR_INVALID, "its symbolic links form a loop; fix them"};
    case EFBIG:
      return {KINORA_ERROR_INVALID,
              "it is larger than this file system or the limit on file sizes (ulimit -f) allows"};
    case EMFILE:
    case ENFILE:
      return {KINORA_ERROR_IO, "too many files are open; raise the limit (ulimit -n)"};
    default:
      return {KINORA_ERROR_IO, std::system_category().message(error) + "; check the device"};
  }
}

}  // namespace

std::string local_path(std::string_view path) {
  constexpr std::string_view kScheme = "file://", kHost = "localhost";
  std::string out(path);
  if (path.starts_with(kScheme)) {
    std::string_view rest = path.substr(kScheme.size());
    // The host of a file URI is empty or localhost (RFC 8089, section 2).
    if (rest.starts_with(kHost)) rest.remove_prefix(kHost.size());
    if (!rest.starts_with('/'))
      throw Error(
          KINORA_ERROR_INVALID,
          std::string(path) + ": a file URI has three slashes before an absolute path, as in file:///data/a");
    out = percent_decoded(rest);
  }
  if (out.empty()) throw Error(KINORA_ERROR_INVALID, "the path of a file is empty");
  if (out.find('\0') != std::string::npos)
    throw Error(KINORA_ERROR_INVALID, "the path of a file contains a NUL character");
  return out;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Error system_error(const std::string& path, const char* doing, int error) {
  const Remedy r = remedy(path, error);
  return {r.code, path + ": " + doing + ": " + r.text};
}

}  // namespace kinora::file
