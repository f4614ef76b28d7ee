// A run file with a job's values replaced in its text, all else as it was.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.hpp"

namespace kinora::core::plan {

// values: {key, "key = value"}. A key that the job has is replaced, over several lines if its value takes
// them; another is added behind the job's name. Failure: there is no such job.
Result<std::string> with_values(std::string text, const std::string& job,
                                const std::vector<std::pair<std::string, std::string>>& values);

}  // namespace kinora::core::plan
