// A run's output folder as several processes see it: the lock of the one that writes, and the record of the
// launch.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.hpp"
#include "core/runtime/place.hpp"

namespace kinora::core {

class JobIdentities;

// One process at a time writes to an output folder. The lock is held until the object is destroyed or the
// process ends in any way.
class FolderLock {
 public:
  // Fails if another process still holds the lock after two seconds; one that was killed may need a part of them to
  // end. On a disk without locks it always succeeds, which the log says.
  static Result<FolderLock> take(const std::filesystem::path& folder);
  // Whether another process holds the lock, as far as this host can see.
  static bool is_held(const std::filesystem::path& folder);
  // Whether the disk has locks at all.
  static bool is_supported(const std::filesystem::path& folder);
  FolderLock(FolderLock&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

// Called by rank 0 once it has the lock: writes the selected jobs and a unique launch number. The other ranks
// compare the record with their own jobs before they wait for rank 0 or compute with it: a rank with another
// run file or output folder would wait forever, or train with ranks of another run. Throws Error.
void write_launch_record(JobIdentities&, const std::vector<bool>& jobs);

// Called by the other ranks: returns when rank 0 has begun the same jobs, or when the run is cancelled.
// Throws Error(KINORA_ERROR_INVALID) that names what differs, and Error(KINORA_ERROR_TIMEOUT) if rank 0 does
// not begin in this folder within the place's limit.
void await_launch_record(JobIdentities&, const std::vector<bool>& jobs, const LaunchPlace&);

// The launch number in the folder's record; empty: there is no record.
std::string launch_number(const std::filesystem::path& out);

// Tracks whether rank 0 of this launch still runs: false once the folder's lock, seen before, has been free
// for the place's time limit.
class FirstRank {
 public:
  FirstRank(std::filesystem::path out, const LaunchPlace& place)
      : out_(std::move(out)), limit_(place.timeout_ms) {}
  bool is_there();

 private:
  std::filesystem::path out_;
  std::chrono::milliseconds limit_;
  bool seen_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace kinora::core
