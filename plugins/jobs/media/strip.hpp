// Strips of frames as pictures, and the number of threads, for all jobs with tensors.
#pragma once
#include <filesystem>

#include <ATen/core/Tensor.h>

#include "core/run/job.hpp"

namespace kinora::core {

// The numbers of `count` frames of a video of `frames`, evenly spaced, int64 [min(count, frames)].
at::Tensor strip_numbers(int64_t frames, int64_t count);
// Writes `count` frames of uint8 [T, H, W, 3], evenly spaced, side by side in one PNG with `comment` in its
// metadata.
void write_strip(JobContext&, const at::Tensor& frames, int64_t count, const std::filesystem::path& file,
                 const std::string& comment = "");
// Number of threads for tensor operations; 0 keeps libtorch's default.
void use_threads(int64_t threads);

}  // namespace kinora::core
