// Latents of different sizes as a packed row, one after the other (kinora/videos.hpp), and back.
#pragma once
#include <vector>

#include <ATen/ATen.h>

namespace kinora::core {

// [1, C, T, H, W] each -> [1, C, sum of T * H * W]
inline at::Tensor row_of(const std::vector<at::Tensor>& videos) {
  std::vector<at::Tensor> flat;
  for (const auto& video : videos) flat.push_back(video.flatten(2));
  return at::cat(flat, 2);
}

// T, H and W of each, int64 [n, 3].
inline at::Tensor sizes_of(const std::vector<at::Tensor>& videos) {
  std::vector<int64_t> out;
  for (const auto& video : videos) out.insert(out.end(), {video.size(2), video.size(3), video.size(4)});
  return at::tensor(out, at::kLong).view({-1, 3});
}

// The inverse of row_of: views of the row.
inline std::vector<at::Tensor> videos_of(const at::Tensor& row, const at::Tensor& sizes) {
  const at::Tensor given = sizes.to(at::kCPU).contiguous();
  std::vector<at::Tensor> out;
  int64_t at = 0;
  for (int64_t i = 0; i < given.size(0); ++i) {
    const auto* size = given.data_ptr<int64_t>() + 3 * i;
    const int64_t numbers = size[0] * size[1] * size[2];
    out.push_back(row.narrow(2, at, numbers).reshape({1, row.size(1), size[0], size[1], size[2]}));
    at += numbers;
  }
  return out;
}

}  // namespace kinora::core
