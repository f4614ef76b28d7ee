// Long videos through a tokenizer: a latent frame at a time where it streams, so that beside the latent and
// the 8-bit frames only what belongs to one latent frame is in memory.
#pragma once
#include <functional>

#include "core/torch/context/network.hpp"

namespace kinora::core {

// Frames [first, first + count) of a video, [1, 3, count, H, W] in [-1, 1], on the tokenizer's device.
using FramesOf = std::function<at::Tensor(int64_t first, int64_t count)>;

// Both are the whole video's, bit for bit if the tokenizer's streams are; results on the CPU.
at::Tensor encode_video(Network& tokenizer, int64_t frames, const FramesOf& video);
// latent [1, C, t, h, w] or codes [1, t, h, w] -> uint8 [T, H, W, 3].
at::Tensor decode_frames(Network& tokenizer, const at::Tensor& latent, at::Device device);

}  // namespace kinora::core
