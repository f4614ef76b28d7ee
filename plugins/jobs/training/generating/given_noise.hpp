// Reads a video's initial noise from a file, so that two programs can start from the same noise.
#pragma once
#include <filesystem>
#include <vector>

#include <ATen/core/Tensor.h>

namespace kinora::core {

// The noise of the video with this number, float64 [1, C, T, H, W]. file: safetensors with one tensor per video, "000",
// "001", ... shape: [C, T, H, W] of the latent. Throws Error: KINORA_NOT_FOUND without the tensor, KINORA_INVALID for
// another shape, KINORA_DATA for a value that is not finite.
at::Tensor given_noise(const std::filesystem::path& file, int64_t number, const std::vector<int64_t>& shape);
// Checks only its name and shape, without reading values.
void require_noise(const std::filesystem::path& file, int64_t number, const std::vector<int64_t>& shape);

}  // namespace kinora::core
