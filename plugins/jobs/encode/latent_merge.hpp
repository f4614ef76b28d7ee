// Merges an encode job's parts into its results: every window in the order of the clips, whichever rank
// encoded it, with the statistics of all. The files are the same, byte for byte, for any number of ranks.
#pragma once
#include <nlohmann/json.hpp>

#include "plugins/jobs/training/options/training.hpp"
#include "core/torch/media/clips.hpp"
#include "plugins/jobs/encode/latent_parts.hpp"

namespace kinora::core {

// Writes latents.h5 and latents.json into the folder and returns the job's summary. Throws Error(KINORA_DATA)
// if there are no windows; removes the parts then, and after success.
nlohmann::json merge_latents(const std::filesystem::path& folder, const std::string& job,
                             const LatentParts& parts, Clips& clips, const EncodeOptions& options);

}  // namespace kinora::core
