// Input of CLIP's image encoders.
#pragma once
#include <ATen/core/Tensor.h>

namespace kinora::core {

// frame: uint8 [H, W, 3] -> [1, 3, size, size] float32: shorter edge scaled to `size` with Pillow's bicubic
// filter, centre crop, normalised with CLIP's mean and deviation (transformers' CLIPImageProcessor).
at::Tensor clip_image(const at::Tensor& frame, int64_t size);

}  // namespace kinora::core
