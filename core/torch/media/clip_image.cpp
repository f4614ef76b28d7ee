#include "core/torch/media/clip_image.hpp"

#include <algorithm>

#include <ATen/ATen.h>

namespace kinora::core {
namespace {

// Columns first, then rows, rounded to whole levels after each, as in Pillow.
at::Tensor resized(at::Tensor x, int64_t height, int64_t width) {
  const auto to = [](const at::Tensor& t, int64_t h, int64_t w) {
    return at::_upsample_bicubic2d_aa(t, {h, w}, false).add(0.5).floor().clamp(0, 255);
  };
  if (x.size(3) != width) x = to(x, x.size(2), width);
  return x.size(2) == height ? x : to(x, height, width);
}

}  // namespace

at::Tensor clip_image(const at::Tensor& frame, int64_t size) {
  at::Tensor x = frame.permute({2, 0, 1}).unsqueeze(0).to(at::kDouble);
  const int64_t H = x.size(2), W = x.size(3), shorter = std::min(H, W);
  x = resized(x, size * H / shorter, size * W / shorter);
  x = x.narrow(2, (x.size(2) - size) / 2, size).narrow(3, (x.size(3) - size) / 2, size);
  const auto by_channel = [&](at::ArrayRef<double> v) {
    return at::tensor(v, x.options()).view({1, 3, 1, 1});
  };
  return ((x / 255 - by_channel({0.48145466, 0.4578275, 0.40821073})) /
          by_channel({0.26862954, 0.26130258, 0.27577711}))
      .to(at::kFloat)
      .contiguous();
}

}  // namespace kinora::core
