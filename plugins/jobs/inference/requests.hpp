// The videos that a generate job makes: their inputs, from the job's options and its prompts_file, and the
// noise that a file gives for them.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/run/job.hpp"
#include "plugins/jobs/inference/generate_options.hpp"
#include "plugins/jobs/inference/request.hpp"

namespace kinora::core {

// Every video of the job, in order. Throws Error that names the option, or the line of prompts_file.
std::vector<Request> requests(const JobView& context, const GenerateOptions& options);
// Throws Error(KINORA_ERROR_INVALID) for an output format that does not exist.
void require_formats(const GenerateOptions& options);
// Throws Error(KINORA_ERROR_INVALID) if `strength` is below 1 and no request has a video to change.
void require_video(const GenerateOptions& options, const std::vector<Request>& all);

// The noise of the video with this number, float64 [1, C, T, H, W], so that two programs can start from the
// same noise. file: safetensors with one tensor per video, "000", "001", ... shape: [C, T, H, W] of the
// latent. Throws Error: KINORA_ERROR_NOT_FOUND without the tensor, KINORA_ERROR_INVALID for another shape,
// KINORA_ERROR_DATA for a value that is not finite.
at::Tensor given_noise(const std::filesystem::path& file, int64_t number, const std::vector<int64_t>& shape);
// The same checks, without the tensor.
void require_noise(const std::filesystem::path& file, int64_t number, const std::vector<int64_t>& shape);

}  // namespace kinora::core
