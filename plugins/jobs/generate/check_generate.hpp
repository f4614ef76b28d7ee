#pragma once
#include "core/run/job_check.hpp"

namespace kinora::core {

// Checks a generate job.
void check_generate(JobCheck&);

}  // namespace kinora::core
