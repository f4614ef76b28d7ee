// The noise that a video begins with, by file: so that two programs can begin with the same.
#pragma once
#include <filesystem>
#include <vector>

#include <ATen/core/Tensor.h>

namespace kinora::core {

// Reads the noise of the video with this number, float64 [1, C, T, H, W]. file: safetensors with a tensor a video, "000",
// "001", ... shape: [C, T, H, W] of the latent. Throws Error: KINORA_NOT_FOUND without the tensor,
// KINORA_INVALID of another shape, KINORA_DATA with a number that is not finite.
at::Tensor given_noise(const std::filesystem::path& file, int64_t number, const std::vector<int64_t>& shape);
// The same of its name and shape; no number is read.
void require_noise(const std::filesystem::path& file, int64_t number, const std::vector<int64_t>& shape);

}  // namespace kinora::core
