// The bytes of an input decide whether it has changed, not the time of its file.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "plugins/jobs/curation/inputs.hpp"

namespace kinora::core {

// Gives each local input that was touched or copied since the job was done, and that has the bytes of then, the
// recorded time of its file, so that its identity is the recorded one. out: the run's folder, which keeps the digests
// of touched files. Without a record with digests nothing changes.
void take_recorded_times(const std::filesystem::path& out, const std::string& job, InputRows& inputs);

}  // namespace kinora::core
