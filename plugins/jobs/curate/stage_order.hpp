// Checks the order of a curate job's stages before anything runs: each gets the tensors that it reads, and
// has something to do where it is.
#pragma once
#include <functional>
#include <vector>

#include "core/run/run_file.hpp"

namespace kinora::core {

// Receives the stage that a finding is about, and what is wrong with a remedy.
using Finding = std::function<void(const ComponentUse&, const std::string&)>;

// Checks from the manifests that each stage of a job gets the tensors that it reads with its samples, such as
// `frames`: a stage before it must name the tensor as an output. Tensors end at a stage that cuts (an output
// `per = "clip"`); `when` and `optional` of the manifest are honoured (plugin/manifest.hpp). Findings go to
// `problem`, with the stage that lacks something: what, and which option of which stage makes it; but to
// `doubt` where that stage or one on the way to it is not of Kinora's own (own_stages.hpp): it may do without
// the tensor, or make it, and say so in other words or not at all. The graph of the stages is sound.
void check_tensors(const Registry& registry, const std::vector<const ComponentUse*>& stages,
                   const Finding& problem, const Finding& doubt);

// Checks that videos are cut once, after their shots are found and before what is said of clips; shots.merge
// compares what a stage embed.* before it makes; a filter with bounds has one. Only Kinora's own stages are checked.
// problem: what fails for every video; doubt: what works and is hardly meant.
void check_order(const Registry& registry, const std::vector<const ComponentUse*>& stages,
                 const Finding& problem, const Finding& doubt);

}  // namespace kinora::core
