#pragma once
#include "core/run/job_check.hpp"

namespace kinora::core {

// Checks a distill job.
void check_distill(JobCheck&);

}  // namespace kinora::core
