#include "core/torch/media/streaming.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/run/cancel.hpp"
#include "core/torch/media/clips.hpp"
#include "kinora/aten.hpp"
#include "kinora/error.hpp"
#include "kinora/strategy.hpp"

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

at::Tensor encode_part(Network& tokenizer, int64_t frames, int64_t first, int64_t count,
                       const FramesOf& video) {
  const auto info = tokenizer.info();
  const int64_t from = info.encode_span > 0 ? std::max<int64_t>(first - info.encode_span, 0) : 0,
                to = first + count;
  const auto later = [&](int64_t at, int64_t n) { return video(info.time * from + at, n); };
  const at::Tensor latent = encode_video(tokenizer, std::min(1 + info.time * (to - 1 - from), frames), later);
  return latent.narrow(latent.dim() - 3, first - from, count);
}

at::Tensor decode_part(Network& tokenizer, const at::Tensor& latent, at::Device device, int64_t first,
                       int64_t count) {
  const auto info = tokenizer.info();
  // One more than the halo: the first latent frame gives one frame, and not those that a later one's depend
  // on.
  const int64_t from = info.halo >= 0 ? std::max<int64_t>(first - info.halo - 1, 0) : 0;
  const at::Tensor frames =
      decode_frames(tokenizer, latent.narrow(latent.dim() - 3, from, first + count - from), device);
  const int64_t before = first == from ? 0 : 1 + (first - from - 1) * info.time;
  return frames.narrow(0, before, frames.size(0) - before);
}

at::Tensor decode_together(Network& tokenizer, const at::Tensor& latent, at::Device device,
                           const kinora_group& ranks) {
  const Group<at::Tensor> group(&ranks);
  const int64_t P = group.size(), pieces = latent.size(latent.dim() - 3), time = tokenizer.info().time;
  const bool alone = P == 1 || pieces < P || !tokenizer.open_stream(true);
  if (alone) return group.rank() == 0 ? decode_frames(tokenizer, latent, device) : at::Tensor();
  const auto first_of = [&](int64_t r) { return pieces * r / P; };
  const int64_t mine = first_of(group.rank());
  const at::Tensor own = decode_part(tokenizer, latent, device, mine, first_of(group.rank() + 1) - mine);
  if (group.rank() > 0) {
    for (int64_t i = 0; i < own.size(0) / time; ++i)
      group.send(own.narrow(0, i * time, time).to(device), 0, mine + i).finish();
    return {};
  }
  at::Tensor out = at::empty({1 + (pieces - 1) * time, own.size(1), own.size(2), 3}, at::kByte);
  out.narrow(0, 0, own.size(0)).copy_(own);
  const at::Tensor like = at::empty({time, own.size(1), own.size(2), 3}, own.options().device(device));
  for (int64_t r = 1; r < P; ++r)
    for (int64_t i = first_of(r); i < first_of(r + 1); ++i)
      out.narrow(0, 1 + (i - 1) * time, time).copy_(group.receive(like, r, i).finish());
  return out;
}

}  // namespace kinora::core
