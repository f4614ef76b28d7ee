// One process at a time writes to an output folder.
#pragma once
#include <filesystem>
#include <utility>

#include "core/base/status.hpp"

namespace kinora::core {

// Held until the object is destroyed or the process ends in any way.
class FolderLock {
 public:
  // Fails if another process holds the lock. On a file system without locks it always succeeds.
  static Result<FolderLock> take(const std::filesystem::path& folder);
  // Whether another process holds the lock, as far as this host can see.
  static bool is_held(const std::filesystem::path& folder);
  FolderLock(FolderLock&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace kinora::core
