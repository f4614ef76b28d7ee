#pragma once
#include "core/run/job_check.hpp"

namespace kinora::core {

// Checks a train job.
void check_train(JobCheck&);

}  // namespace kinora::core
