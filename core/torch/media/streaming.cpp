#include "core/torch/media/streaming.hpp"

#include <ATen/ATen.h>

#include "core/run/cancel.hpp"
#include "core/torch/media/clips.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

void go_on() {
  if (cancelled()) throw Error(KINORA_CANCELLED, "cancelled");
}

}  // namespace

at::Tensor encode_video(Network& tokenizer, int64_t frames, const FramesOf& video) {
  const int64_t time = tokenizer.info().time;
  const bool in_pieces = frames > 1 && (frames - 1) % time == 0;  // else the tokenizer says what is wrong
  const auto stream = in_pieces ? tokenizer.open_stream(false) : nullptr;
  if (!stream) return tokenizer.encode(video(0, frames)).to(at::kCPU);
  std::vector<at::Tensor> latents;
  for (int64_t first = 0; first < frames; first += first == 0 ? 1 : time) {
    go_on();
    latents.push_back(stream->push(video(first, first == 0 ? 1 : time)).to(at::kCPU));
  }
  return at::cat(latents, latents[0].dim() - 3);
}

at::Tensor decode_frames(Network& tokenizer, const at::Tensor& latent, at::Device device) {
  const int64_t dim = latent.dim() - 3, pieces = latent.size(dim);
  const auto stream = pieces > 1 ? tokenizer.open_stream(true) : nullptr;
  if (!stream) return frames_of(tokenizer.decode(latent.to(device)).to(at::kCPU));
  at::Tensor out;
  int64_t at = 0;
  for (int64_t i = 0; i < pieces; ++i) {
    go_on();
    const at::Tensor piece = frames_of(stream->push(latent.narrow(dim, i, 1).to(device)).to(at::kCPU));
    if (i == 0)
      out = at::empty({1 + (pieces - 1) * tokenizer.info().time, piece.size(1), piece.size(2), 3}, at::kByte);
    out.narrow(0, at, piece.size(0)).copy_(piece);
    at += piece.size(0);
  }
  return out;
}

}  // namespace kinora::core
