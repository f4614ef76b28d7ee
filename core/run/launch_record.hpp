// The record that rank 0 of a launch writes into the run's folder when it begins. The other ranks compare it with their
// own jobs before they wait for rank 0 or compute with it: a rank with another run file or output folder would wait
// forever, or train with ranks of another run.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "core/run/place.hpp"
#include "core/run/run_file.hpp"

namespace kinora::core {

// Called by rank 0 once it has the folder: writes the selected jobs and a unique launch number. Throws Error.
void write_launch_record(const RunFile&, const std::vector<bool>& jobs);

// Called by the other ranks: returns when rank 0 has begun the same jobs, or when the run is cancelled. Throws
// Error(KINORA_INVALID) that names what differs, and Error(KINORA_TIMEOUT) if rank 0 does not begin in this
// folder within the place's limit.
void await_launch_record(const RunFile&, const std::vector<bool>& jobs, const LaunchPlace&);

// The launch number in the folder's record; empty: there is no record.
std::string launch_number(const std::filesystem::path& out);

// Tracks whether rank 0 of this launch still runs: false once the folder's lock, seen before, has been free for the
// place's time limit.
class FirstRank {
 public:
  FirstRank(std::filesystem::path out, const LaunchPlace& place) : out_(std::move(out)), limit_(place.timeout_ms) {}
  bool is_there();

 private:
  std::filesystem::path out_;
  std::chrono::milliseconds limit_;
  bool seen_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace kinora::core
