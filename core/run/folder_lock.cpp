#include "core/run/folder_lock.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <sys/file.h>

namespace kinora::core {

Result<FolderLock> FolderLock::take(const std::filesystem::path& folder) {
  const auto file = folder / ".lock";
  FolderLock lock(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (lock.fd_ < 0)
    return fail(KINORA_IO, "{}: {}; make the folder writable or choose another with --out", file.string(),
                std::strerror(errno));
  if (flock(lock.fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return fail(KINORA_FAILED,
                "another kinora run is writing to {}; wait for it or choose another folder with --out",
                folder.string());
  return lock;
}

bool FolderLock::is_held(const std::filesystem::path& folder) {
  const FolderLock mine(open((folder / ".lock").c_str(), O_RDONLY | O_CLOEXEC));
  return mine.fd_ >= 0 && flock(mine.fd_, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace kinora::core
