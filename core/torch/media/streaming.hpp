// Long videos through a tokenizer: a latent frame at a time where it streams, so that beside the latent and
// the 8-bit frames only what belongs to one latent frame is in memory.
#pragma once
#include <functional>

#include "core/torch/context/network.hpp"
#include "kinora/abi/strategy.h"

namespace kinora::core {

// Frames [first, first + count) of a video, [1, 3, count, H, W] in [-1, 1], on the tokenizer's device.
using FramesOf = std::function<at::Tensor(int64_t first, int64_t count)>;

// Both are the whole video's, bit for bit if the tokenizer's streams are; results on the CPU.
at::Tensor encode_video(Network& tokenizer, int64_t frames, const FramesOf& video);
// latent [1, C, t, h, w] or codes [1, t, h, w] -> uint8 [T, H, W, 3].
at::Tensor decode_frames(Network& tokenizer, const at::Tensor& latent, at::Device device);

// So many from the first on, of frames or latent frames.
struct Stretch {
  int64_t first = 0, count = 0;
};
// Of `pieces`, those of a rank of so many; the first rank always has some.
Stretch stretch_of(int64_t pieces, int64_t rank, int64_t ranks);
// The frames that these latent frames of a video of `frames` frames depend on, as encode_part() takes them:
// the tokenizer's encode_span to the left, where it has one, else all before.
Stretch frames_behind(const kinora_tokenizer_info& info, int64_t frames, const Stretch& latent);

// Latent frames [first, first + count) of a video of `frames` frames, the same as encode_video()'s, from
// frames_behind() them. The first of those is coded as a video's first frame is, and left out.
at::Tensor encode_part(Network& tokenizer, int64_t frames, int64_t first, int64_t count,
                       const FramesOf& video);
// uint8 [T, H, W, 3] of latent frames [first, first + count), the same as in decode_frames()'s.
at::Tensor decode_part(Network& tokenizer, const at::Tensor& latent, at::Device device, int64_t first,
                       int64_t count);
// decode_frames() by all ranks of a group, each its own stretch of time with what that depends on, where the
// tokenizer streams; else by the first. Every rank calls it with the same latent. Only the first gets the
// frames, a latent frame's at a time; the others get nothing.
at::Tensor decode_together(Network& tokenizer, const at::Tensor& latent, at::Device device,
                           const kinora_group& group);

// encode_video() by all ranks of a group, each its stretch_of() the latent frames; `video` is asked for
// frames_behind() these only. Every rank calls it; only the first gets the latent.
at::Tensor encode_together(Network& tokenizer, int64_t frames, const FramesOf& video, at::Device device,
                           const kinora_group& group);

}  // namespace kinora::core
