// An encode job whose input is a table of data stores no latents, since training encodes each window when it takes
// it. The job measures their scale over the first windows, and writes latents.json.
#pragma once
#include "core/run/job.hpp"
#include "plugins/jobs/windows/encode_options.hpp"

namespace kinora::core {

// On every rank; the first one works.
void encode_live(JobContext& context, const EncodeOptions& options);

}  // namespace kinora::core
