// Checks from the manifests, before anything runs, that each stage of a job gets the tensors that it reads with its
// samples, such as `frames`: a stage before it must name the tensor as an output. Tensors end at a stage that cuts
// (an output `per = "clip"`); `when` and `optional` of the manifest are honoured (plugin/manifest.hpp).
#pragma once
#include <functional>
#include <vector>

#include "core/run/run_file.hpp"

namespace kinora::core {

using Finding = std::function<void(const ComponentUse&, const std::string&)>;

// Findings go to `problem`, with the stage that lacks something: what, and which option of which stage makes it; but to
// `doubt` where that stage or one on the way to it is not of Kinora's own (core/run/job_stages.hpp): it may do without the tensor,
// or make it, and say so in other words or not at all. The graph of the stages is sound.
void check_tensors(const Registry& registry, const std::vector<const ComponentUse*>& stages, const Finding& problem,
                   const Finding& doubt);

}  // namespace kinora::core
