// Encodes and decodes long videos one latent frame at a time, if the tokenizer streams. In addition to the
// latent and the 8-bit frames, memory then only holds the data of one latent frame.
#pragma once
#include <functional>

#include "core/torch/network/tokenizer.hpp"
#include "kinora/abi/parallel.h"

namespace kinora::core {

// Frames [first, first + count) of uint8 [T, H, W, 3] as a video [1, 3, count, H, W] in [-1, 1], float32.
at::Tensor video_of(const at::Tensor& frames, int64_t first, int64_t count);
// Inverse: [1, 3, T, H, W] -> uint8 [T, H, W, 3], clamped.
at::Tensor frames_of(const at::Tensor& video);

// Frames [first, first + count) of a video, [1, 3, count, H, W] in [-1, 1], on the tokenizer's device.
using FramesOf = std::function<at::Tensor(int64_t first, int64_t count)>;

// Both equal the result for the whole video, bit for bit if the tokenizer's streams do; results are on the CPU.
// run, here and below: the caller's, whose progress() is called between two latent frames; null: nobody stops it.
at::Tensor encode_video(Tokenizer& tokenizer, int64_t frames, const FramesOf& video,
                        const kinora_run* run = nullptr);
// latent [1, C, t, h, w] or codes [1, t, h, w] -> uint8 [T, H, W, 3].
at::Tensor decode_frames(Tokenizer& tokenizer, const at::Tensor& latent, at::Device device,
                         const kinora_run* run = nullptr);
// The next latent frames of a decoding stream -> uint8 [T, H, W, 3].
at::Tensor decode_next(Tokenizer::Stream& stream, const at::Tensor& latent, at::Device device,
                       const kinora_run* run = nullptr);

// A range of frames or latent frames.
struct Stretch {
  int64_t first = 0, count = 0;
};
// This rank's range of `pieces`; the first rank's is never empty.
Stretch stretch_of(int64_t pieces, int64_t rank, int64_t ranks);
// The frames that these latent frames of a video of `frames` frames depend on, as encode_part() takes them:
// the tokenizer's encode_span to the left, if it has one, else all earlier frames.
Stretch frames_behind(const kinora_tokenizer_info& info, int64_t frames, const Stretch& latent);

// Latent frames [first, first + count) of a video of `frames` frames, equal to encode_video()'s, computed
// from frames_behind(). The first of those is coded like a video's first frame, and left out.
at::Tensor encode_part(Tokenizer& tokenizer, int64_t frames, int64_t first, int64_t count,
                       const FramesOf& video, const kinora_run* run = nullptr);
// uint8 [T, H, W, 3] of latent frames [first, first + count), equal to those of decode_frames().
at::Tensor decode_part(Tokenizer& tokenizer, const at::Tensor& latent, at::Device device, int64_t first,
                       int64_t count, const kinora_run* run = nullptr);
// decode_frames() on all ranks of a group, if the tokenizer streams: each decodes its own range of time and
// the frames that this depends on. Otherwise the first rank decodes alone. Every rank calls it with the same
// latent. Only the first gets the frames, one latent frame's at a time; the others get nothing.
at::Tensor decode_together(Tokenizer& tokenizer, const at::Tensor& latent, at::Device device,
                           const kinora_group& group, const kinora_run* run = nullptr);

// encode_video() on all ranks of a group, each for its stretch_of() the latent frames; `video` is only called
// for the frames_behind() these. Every rank calls it; only the first gets the latent.
at::Tensor encode_together(Tokenizer& tokenizer, int64_t frames, const FramesOf& video, at::Device device,
                           const kinora_group& group, const kinora_run* run = nullptr);

}  // namespace kinora::core
