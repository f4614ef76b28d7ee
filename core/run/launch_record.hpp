// What rank 0 of a launch writes into the run's folder when it begins, so that the others know what it does
// before they wait for it or compute with it: a rank that read another file, or writes to another folder,
// would wait for what never comes, or train with strangers.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "core/run/place.hpp"
#include "core/run/run_file.hpp"

namespace kinora::core {

// Rank 0, once it has the folder: the jobs that it will look at, and a number of its own. Throws Error.
void write_launch_record(const RunFile&, const std::vector<bool>& jobs);

// Another rank: returns when rank 0 has begun with the same jobs, or when the run is asked to stop. Throws
// Error(KINORA_INVALID) that names what differs, and Error(KINORA_TIMEOUT) if rank 0 does not begin in this
// folder within the place's limit.
void await_launch_record(const RunFile&, const std::vector<bool>& jobs, const LaunchPlace&);

// The number in the folder's record; empty: there is none.
std::string launch_number(const std::filesystem::path& out);

// Whether rank 0 of this launch is at work: false once nobody has held the folder for the place's limit,
// though somebody had.
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
