// Input of `kinora plan`: a train job of a run file.
#pragma once
#include <optional>

#include "apps/planner/layout.hpp"
#include "core/run/job.hpp"

namespace kinora::core::plan {

// The train job with this name; "": the only one.
Result<const JobSpec*> train_job(const RunFile&, const std::string& name);

// "21x90x160"
Result<LatentSize> parse_latent(std::string_view text);

// Model, batch and lengths of the job; the size of its latents is that of the encode job that it reads,
// unless `latent` is given. Opens libtorch.
Result<Problem> problem_of(const JobView& train, const Cluster&, const std::optional<LatentSize>& latent);

// The layout that the job's `parallel` gives on this cluster; nothing if it gives none. KINORA_UNSUPPORTED if
// it contains a strategy that cannot be simulated.
Result<std::optional<Layout>> layout_of(const JobSpec&, const Problem&);

}  // namespace kinora::core::plan
