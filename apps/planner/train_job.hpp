// The train job that `kinora plan` is for: reads its model, batch and layout from a run file, and writes the
// chosen layout back.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/planner/layout.hpp"
#include "core/base/status.hpp"
#include "core/run/job.hpp"

namespace kinora::core::plan {

// The job of this kind with this name; "": the only one.
Result<const JobSpec*> planned_job(const RunFile&, std::string_view kind, const std::string& name);
// The same of a train job; a distill job of this name is refused with the reason.
Result<const JobSpec*> train_job(const RunFile&, const std::string& name);

// "21x90x160"
Result<LatentSize> parse_latent(std::string_view text);

// Model, batch and lengths of the job; the size of its latents is that of the encode job that it reads,
// unless `latent` is given. Opens libtorch.
Result<Problem> problem_of(const JobView& train, const Cluster&, const std::optional<LatentSize>& latent);

// The layout that the job's `parallel` gives on this cluster; nothing if it gives none.
// KINORA_ERROR_UNSUPPORTED if it contains a strategy that cannot be simulated.
Result<std::optional<Layout>> layout_of(const JobSpec&, const Problem&);

// `text`, a run file, with the given values of the job; everything else is unchanged, comments included.
// values: {key, "key = value"}. An existing key of the job is replaced, over several lines if its value spans
// them; a new key is added after the job's name. Fails if there is no such job.
Result<std::string> with_values(std::string text, const std::string& job,
                                const std::vector<std::pair<std::string, std::string>>& values);

}  // namespace kinora::core::plan
