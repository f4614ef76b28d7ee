#include "core/base/regular_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <sys/stat.h>

namespace kinora::core {
namespace {

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "a file of an unknown kind";
}

// Reads to the end, or one byte more than the limit. Returns 0 or errno.
int read_up_to(int descriptor, uint64_t limit, std::string& text) {
  constexpr uint64_t kPiece = uint64_t{1} << 16;
  while (text.size() <= limit) {
    const size_t before = text.size();
    text.resize(before + std::min(kPiece, limit + 1 - before));
    const ssize_t n = ::read(descriptor, text.data() + before, text.size() - before);
    const int error = n < 0 ? errno : 0;
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (error && error != EINTR) return error;
    if (n == 0) break;
  }
  return 0;
}

}  // namespace

Failure no_regular_file(const std::filesystem::path& path, mode_t mode) {
  return fail(KINORA_ERROR_INVALID, "{}: not a regular file but {}; give the path of a file", path.string(),
              kind_of(mode));
}

Result<int> open_regular_file(const std::filesystem::path& path) {
  // A pipe may never get a writer: opening it must not wait.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  const int error = descriptor < 0 ? errno : 0;
  struct stat info {};
  const bool is_known = error ? error == ENXIO && ::stat(path.c_str(), &info) ==
                                                      0  // a socket, or a device without its other side
                              : ::fstat(descriptor, &info) == 0;
  if (is_known && !S_ISREG(info.st_mode)) {
    if (!error) ::close(descriptor);
    return no_regular_file(path, info.st_mode);
  }
  if (error)
    return fail(error == ENOENT ? KINORA_ERROR_NOT_FOUND : KINORA_ERROR_INVALID,
                "{}: cannot be opened ({}); check the path and its permissions", path.string(),
                std::strerror(error));
  return descriptor;
}

Result<std::string> read_regular_file(const std::filesystem::path& path, uint64_t limit) {
  const auto descriptor = open_regular_file(path);
  if (!descriptor) return descriptor.failure();
  std::string text;
  const int error = read_up_to(*descriptor, limit, text);
  ::close(*descriptor);
  if (error)
    return fail(KINORA_ERROR_IO, "{}: reading failed ({}); check the disk", path.string(),
                std::strerror(error));
  if (text.size() > limit)
    return fail(KINORA_ERROR_DATA, "{}: more than the {} bytes that are expected; is it the right file?",
                path.string(), limit);
  return text;
}

}  // namespace kinora::core
