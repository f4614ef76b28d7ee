// Strips of frames as pictures, and the number of threads, for all jobs with tensors.
#pragma once
#include <filesystem>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "core/run/job.hpp"

namespace kinora::core {

// The numbers of `count` frames of a video of `frames`, evenly spaced, int64 [min(count, frames)].
at::Tensor strip_numbers(int64_t frames, int64_t count);
// Writes frames uint8 [T, H, W, 3] side by side in one picture. options: of stage/video.write, whose format is that of
// the file's ending: png, jpg, or of a single frame webp.
void write_row(JobContext&, const at::Tensor& frames, const nlohmann::json& options,
               const std::filesystem::path& file, const std::string& comment = "");
// Writes `count` frames of uint8 [T, H, W, 3], evenly spaced, side by side in one PNG with `comment` in its
// metadata.
void write_strip(JobContext&, const at::Tensor& frames, int64_t count, const std::filesystem::path& file,
                 const std::string& comment = "");
// Number of threads for tensor operations; 0 keeps libtorch's default.
void use_threads(int64_t threads);

}  // namespace kinora::core
