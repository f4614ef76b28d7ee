// Folders that this process may write to only while it is the newest copy of its run (apps/command/lease.hpp).
// Everything that gives a file its final name, or appends to one of the run's records, asks first.
#pragma once
#include <filesystem>
#include <functional>

#include "core/base/status.hpp"

namespace kinora::core {

// Sets the check for names below a folder, during the lifetime of the object. [any-thread] check: it fails once another
// process has taken the folder over.
class Fence {
 public:
  Fence(const std::filesystem::path& folder, std::function<Status()> check);
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;
  ~Fence();

 private:
  const void* id_;
};

// [any-thread] Call it right before a name appears, changes or vanishes: fails if another process writes to
// the folder of `path` now. Folders without a fence are free.
Status may_publish(const std::filesystem::path& path);

}  // namespace kinora::core
