// What jobs that hold tensors share.
#pragma once
#include <filesystem>

#include <ATen/core/Tensor.h>

#include "core/run/job.hpp"

namespace kinora::core {

// `count` frames of uint8 [T, H, W, 3], evenly spaced, side by side in one PNG, which says `comment` of
// itself.
void write_strip(JobContext&, const at::Tensor& frames, int64_t count, const std::filesystem::path& file,
                 const std::string& comment = "");
// Threads of tensor operations; 0 leaves libtorch's choice.
void use_threads(int64_t threads);

}  // namespace kinora::core
