// Derives the shape of a model from its options in a run file.
#pragma once
#include <array>

#include <nlohmann/json.hpp>

#include "apps/planner/shape.hpp"
#include "core/base/status.hpp"

namespace kinora::core::plan {

// Frames, rows and columns of a latent.
using LatentSize = std::array<int64_t, 3>;

// id: model/dit, model/stdit, model/cosmos or model/wan; options: complete. KINORA_INVALID for other models,
// for a latent that is not a multiple of the patch size, and for one larger than the model's max_size.
Result<Shape> shape_of(const std::string& id, const nlohmann::json& options, const LatentSize& latent,
                       int64_t text_tokens);

// "21x90x160"
Result<LatentSize> parse_latent(std::string_view text);

// Latent size of this many frames of height x width pixels, from the options of tokenizer/cosmos or
// tokenizer/wan.
Result<LatentSize> latent_of(const std::string& tokenizer, const nlohmann::json& options, int64_t frames,
                             int64_t height, int64_t width);

}  // namespace kinora::core::plan
