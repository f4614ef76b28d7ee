// Whether each stage of a job finds the tensors that it looks at beside the sample, such as `frames`: found out from
// the manifests, before anything runs.
//
// What a stage names as an input (input.frames) another before it has to make, which names it as an output. The help
// of a tensor says where that does not hold as it is:
//
//   with OPTION             the tensor is there only where this option of the stage is set: not 0, false or ""
//   with OPTION = "VALUE"   only where it has this value
//   beside each ...         an output for samples that the stage makes of its input: tensors of the input end there
//   without it ...          an input that the stage can do without
#pragma once
#include <functional>
#include <vector>

#include "core/run/run_file.hpp"

namespace kinora::core {

using Finding = std::function<void(const ComponentUse&, const std::string&)>;

// Findings go to `problem`, with the stage that lacks something: what, and which option of which stage makes it; but to
// `doubt` where that stage or one on the way to it is not of Kinora's own (own_stages.hpp): it may do without the tensor,
// or make it, and say so in other words or not at all. The graph of the stages is sound.
void check_tensors(const Registry& registry, const std::vector<const ComponentUse*>& stages, const Finding& problem,
                   const Finding& doubt);

}  // namespace kinora::core
