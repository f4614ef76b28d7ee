#include "media/byte_source.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <sys/stat.h>

namespace kinora::video {

int64_t MemorySource::read_at(int64_t offset, void* buffer, int64_t n) {
  if (offset < 0 || offset >= size() || n <= 0) return 0;
  const int64_t count = std::min(n, size() - offset);
  std::memcpy(buffer, bytes_.data() + offset, static_cast<size_t>(count));
  return count;
}

FileSource::FileSource(const std::filesystem::path& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &info) != 0 || !S_ISREG(info.st_mode)) {
    const std::string reason = descriptor_ < 0 ? std::strerror(errno) : "not a regular file";
    if (descriptor_ >= 0) ::close(descriptor_);
    throw MediaError(path.string() + ": cannot open the file (" + reason +
                     "); check the path and its permissions");
  }
  size_ = info.st_size;
}

FileSource::~FileSource() { ::close(descriptor_); }

int64_t FileSource::read_at(int64_t offset, void* buffer, int64_t n) {
  if (offset < 0 || n <= 0) return 0;
  int64_t done = 0;
  while (done < n) {
    const ssize_t got =
        ::pread(descriptor_, static_cast<char*>(buffer) + done, static_cast<size_t>(n - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw MediaError(path_.string() + ": cannot read the file (" + std::strerror(errno) +
                       "); check the disk");
    if (got == 0) break;
    done += got;
  }
  return done;
}

}  // namespace kinora::video
