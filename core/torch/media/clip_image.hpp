// What CLIP's image encoders read.
#pragma once
#include <ATen/core/Tensor.h>

namespace kinora::core {

// frame: uint8 [H, W, 3] -> [1, 3, size, size] float32: the shorter edge scaled to `size` by Pillow's bicubic
// filter, the middle cut out, CLIP's mean and deviation taken out (transformers' CLIPImageProcessor).
at::Tensor clip_image(const at::Tensor& frame, int64_t size);

}  // namespace kinora::core
