// The parts of a check that jobs with windows or latents share.
#pragma once
#include <string>
#include <vector>

#include "core/run/job_check.hpp"
#include "kinora/abi/tokenizer.h"
#include "plugins/jobs/windows/window_size.hpp"

namespace kinora::core {

// Checks that the encode job before a train job makes the latents and texts that the network of this pipeline's folder
// was trained on; returns whether it does. True for a model of another kind, for which the job may have other latents.
bool check_latents(JobCheck&, const std::string& folder);
// Checks that a pipeline's tokenizer decodes the latents of the encode job before a generate job.
bool check_decoder(JobCheck&, const std::string& folder);
// Checks the slot `transforms`, which needs a table of data.
void check_transforms(JobCheck&);
// Checks that the crops among them fit windows of these sizes, and leave what the tokenizer divides; of several sizes
// each must stay as it is.
void check_crops(JobCheck&, const kinora_tokenizer_info&, const std::string& tokenizer,
                 const std::vector<WindowSize>& sizes);

}  // namespace kinora::core
