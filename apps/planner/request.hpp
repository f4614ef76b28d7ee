// What `kinora plan` is asked: a train job of a run file.
#pragma once
#include <optional>

#include "apps/planner/layout.hpp"
#include "apps/planner/model_shape.hpp"
#include "core/run/run_file.hpp"

namespace kinora::core::plan {

// The train job of this name; "": the only one.
Result<const JobSpec*> train_job(const RunFile&, const std::string& name);

// Model, batch and lengths of the job; its latents are those of the encode job that it reads, unless `latent`
// is given.
Result<Problem> problem_of(const RunFile&, const JobSpec&, const Cluster&,
                           const std::optional<LatentSize>& latent);

// The layout that the job's `parallel` names on this cluster; nothing: it names none. KINORA_UNSUPPORTED: it
// names a strategy that cannot be simulated.
Result<std::optional<Layout>> layout_of(const JobSpec&, const Problem&);

}  // namespace kinora::core::plan
