#pragma once
#include "core/run/job_check.hpp"
#include "plugins/jobs/training/options/train_options.hpp"

namespace kinora::core {

// Checks a distill job.
void check_distill(JobCheck&);

// The options of the train job whose model a job distills, which say how it makes a video.
TrainOptions options_of_student(const JobView& distill);

}  // namespace kinora::core
