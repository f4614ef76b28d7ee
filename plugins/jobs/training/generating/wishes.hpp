// The videos that a generate job makes, one after the other.
#pragma once
#include "plugins/jobs/training/generating/generator.hpp"

namespace kinora::core {

// Every video of the job, in order. Throws Error that names the option, or the line of prompts_file.
std::vector<Wish> wishes(const JobView& context, const GenerateOptions& options);
// Rules of the options; they throw Error(KINORA_INVALID).
void require_formats(const GenerateOptions& options);
void require_video(const GenerateOptions& options, const std::vector<Wish>& all);

}  // namespace kinora::core
