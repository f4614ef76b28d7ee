// Replaces values of a job in the text of a run file, and leaves the rest unchanged.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.hpp"

namespace kinora::core::plan {

// values: {key, "key = value"}. An existing key of the job is replaced, over several lines if its value spans
// them; a new key is added after the job's name. Fails if there is no such job.
Result<std::string> with_values(std::string text, const std::string& job,
                                const std::vector<std::pair<std::string, std::string>>& values);

}  // namespace kinora::core::plan
