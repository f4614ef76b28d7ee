#pragma once
#include "core/run/job_check.hpp"

namespace kinora::core {

// Checks an encode job.
void check_encode(JobCheck&);

}  // namespace kinora::core
