#pragma once
#include "core/run/job_check.hpp"
#include "plugins/jobs/inference/generate_options.hpp"

namespace kinora::core {

// Checks a generate job.
void check_generate(JobCheck&);
// Whether the job's pipeline makes little of a picture or video that a video is to begin with. An earlier job may have
// trained it with given frames, and to a model that makes chunks they are chunks before the first one.
bool begins_with_text_alone(const JobView&, const GenerateOptions&);

}  // namespace kinora::core
