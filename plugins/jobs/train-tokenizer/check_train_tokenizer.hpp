#pragma once
#include "core/run/job_check.hpp"

namespace kinora::core {

// Checks a train-tokenizer job.
void check_train_tokenizer(JobCheck&);

}  // namespace kinora::core
