#include "plugins/storage/file/system_error.hpp"

#include <cerrno>
#include <system_error>

namespace kinora::file {
namespace {

struct Remedy {
  int32_t code;
  std::string text;
};

Remedy remedy(const std::string& path, int error) {
  const std::string folder = folder_of(path);
  switch (error) {
    case ENOSPC:
      return {KINORA_NO_MEMORY,
              "the device of '" + folder + "' is full; free space there, or choose another folder"};
    case EDQUOT:
      return {KINORA_NO_MEMORY,
              "your quota on the device of '" + folder + "' is used up; free space there, or raise it"};
    case EACCES:
    case EPERM:
      return {KINORA_INVALID,
              "permission is missing in '" + folder + "'; grant it, or choose another folder"};
    case EROFS:
      return {KINORA_INVALID,
              "'" + folder + "' is on a read-only device; remount it for writing, or choose another folder"};
    case ENOENT:
      return {KINORA_NOT_FOUND, "no such file or folder; check the path"};
    case ENOTDIR:
      return {KINORA_INVALID, "a part of the path is a file, not a folder; check the path"};
    case EISDIR:
      return {KINORA_INVALID, "it is a folder; give the path of a file"};
    case ENAMETOOLONG:
      return {KINORA_INVALID, "the name is too long for this file system; shorten it"};
    case ELOOP:
      return {KINORA_INVALID, "its symbolic links form a loop; fix them"};
    case EFBIG:
      return {KINORA_INVALID,
              "it is larger than this file system or the limit on file sizes (ulimit -f) allows"};
    case EMFILE:
    case ENFILE:
      return {KINORA_IO, "too many files are open; raise the limit (ulimit -n)"};
    default:
      return {KINORA_IO, std::system_category().message(error) + "; check the device"};
  }
}

}  // namespace

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
