// The lease of a run's output folder: of several copies of a run, on whatever hosts, the newest alone writes
// there. It needs no locks of files, and compares no clocks of two machines.
//
//   OUT/.lease-000003   {"beat", "token", "host", "process", "pid", "job", "requeues", "since", "shares", "ended"}
//
// The number is the epoch. A copy takes the folder over by creating the next number, which only one can
// (O_EXCL), and then removes the others. Its `beat` counts up ten times in KINORA_LEASE_SECONDS (20); a copy
// whose beat stands still for that time, as the next one sees it, has lost the folder. A copy that finds its
// own file gone stops: it looks at each beat, and right before anything appears in the folder
// (core/io/fence.hpp).
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "core/base/status.hpp"
#include "core/io/fence.hpp"
#include "core/run/run_folder.hpp"
#include "core/runtime/place.hpp"

namespace kinora::core {

class Lease {
 public:
  // For rank 0. Fails if another run writes there: it holds the folder's lock, or its beat changes; or, with
  // KINORA_ERROR_INVALID, if a later attempt of this process's Slurm job has taken the folder. An earlier
  // attempt of that job always loses it. May wait for KINORA_LEASE_SECONDS, and logs for whom. shares: this
  // process has shared jobs with others, which wait for it.
  static Result<std::unique_ptr<Lease>> take(const std::filesystem::path& out, const LaunchPlace&,
                                             bool shares = false);
  // For other ranks, which publish next to rank 0: ends with a later attempt of their Slurm job. Null: they
  // are not of one.
  static std::unique_ptr<Lease> follow(const std::filesystem::path& out, const LaunchPlace&);
  // Whether take() would fail at once, without waiting.
  static Status may_take(const std::filesystem::path& out, const LaunchPlace&);
  // Whether a process may share jobs there: fails while a run that shares none writes there.
  static Status may_share(const std::filesystem::path& out);

  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  // Notes in the file that this copy has ended.
  ~Lease();

  // [any-thread] Fails with KINORA_ERROR_CANCELLED once another copy has taken over; the log has said so, and
  // the run has been asked to stop. Fails with KINORA_ERROR_IO if the lease cannot be read.
  Status check();
  // [any-thread] Whether check() has failed.
  bool is_lost() const { return lost_; }

 private:
  struct Mine {
    int64_t epoch = 0;          // 0: follows another rank's
    std::string record, token;  // the file's text, and its mark
  };
  Lease(std::filesystem::path out, const LaunchPlace&, Mine, std::optional<FolderLock>);
  void watch();
  void mark_lost(const std::string& message);

  const std::filesystem::path out_;
  const LaunchPlace place_;
  const Mine mine_;
  const std::chrono::milliseconds beat_;
  std::optional<FolderLock> lock_;  // empty while an earlier attempt still holds it
  std::atomic<bool> lost_ = false;
  std::mutex mutex_;
  std::string message_;   // guarded by mutex_
  bool is_over_ = false;  // guarded by mutex_
  std::condition_variable over_;
  std::optional<Fence> fence_;
  std::thread watch_;
};

}  // namespace kinora::core
