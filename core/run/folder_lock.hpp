// One process at a time writes to an output folder.
#pragma once
#include <filesystem>
#include <utility>

#include "core/base/status.hpp"

namespace kinora::core {

// Held until the object or the process ends, however that ends.
class FolderLock {
 public:
  // Failure if another process has it. On a file system without locks everybody gets it.
  static Result<FolderLock> take(const std::filesystem::path& folder);
  // Whether another process has it, as far as this host can see.
  static bool is_held(const std::filesystem::path& folder);
  FolderLock(FolderLock&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace kinora::core
