// An encode job's parts as its results: every window in the order of the clips, whoever encoded it, with the
// statistics of all; so the files are the same, byte for byte, however many ranks there were.
#pragma once
#include <nlohmann/json.hpp>

#include "plugins/jobs/training/options/training.hpp"
#include "core/torch/media/clips.hpp"
#include "plugins/jobs/encode/latent_parts.hpp"

namespace kinora::core {

// Writes latents.h5 and latents.json into the folder and returns what the job's summary says. Throws
// Error(KINORA_DATA) if there is no window; the parts are gone then too, and after success.
nlohmann::json merge_latents(const std::filesystem::path& folder, const std::string& job,
                             const LatentParts& parts, Clips& clips, const EncodeOptions& options);

}  // namespace kinora::core
