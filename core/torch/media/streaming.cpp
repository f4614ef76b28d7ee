#include "core/torch/media/streaming.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "kinora/aten.hpp"
#include "kinora/error.hpp"
#include "kinora/run.hpp"
#include "kinora/strategy.hpp"

namespace kinora::core {
namespace {

// frames_of() a decoded video. Throws for pixels that are not finite, which would be black.
at::Tensor decoded_frames(const at::Tensor& video) {
  if (!at::isfinite(video).all().item<bool>())
    throw Error(
        KINORA_ERROR_DATA,
        "the tokenizer decodes pixels that are not finite; check its weights (tokenizer_weights): is the "
        "download complete?");
  return frames_of(video);
}

// Before piece i of n: throws Error(KINORA_ERROR_CANCELLED) if the run was asked to stop.
void between(const kinora_run* run, int64_t i, int64_t n) {
  if (run) kinora::Run(run).progress(i, n);
}

}  // namespace

at::Tensor video_of(const at::Tensor& frames, int64_t first, int64_t count) {
  return frames.narrow(0, first, count)
      .permute({3, 0, 1, 2})
      .unsqueeze(0)
      .to(at::kFloat)
      .div(127.5)
      .sub(1)
      .contiguous();
}

at::Tensor frames_of(const at::Tensor& video) {
  return video[0].clamp(-1, 1).add(1).mul(127.5).round().to(at::kByte).permute({1, 2, 3, 0}).contiguous();
}

at::Tensor encode_video(Tokenizer& tokenizer, int64_t frames, const FramesOf& video, const kinora_run* run) {
  const int64_t time = tokenizer.info().time;
  const bool in_pieces = frames > 1 && (frames - 1) % time == 0;  // otherwise the tokenizer reports the error
  const auto stream = in_pieces ? tokenizer.open_stream(false, run) : nullptr;
  if (!stream) return tokenizer.encode(video(0, frames), nullptr, run).to(at::kCPU);
  std::vector<at::Tensor> latents;
  for (int64_t first = 0; first < frames; first += first == 0 ? 1 : time) {
    between(run, first, frames);
    latents.push_back(stream->push(video(first, first == 0 ? 1 : time), run).to(at::kCPU));
  }
  return at::cat(latents, latents[0].dim() - 3);
}

at::Tensor decode_next(Tokenizer::Stream& stream, const at::Tensor& latent, at::Device device,
                       const kinora_run* run) {
  return decoded_frames(stream.push(latent.to(device), run).to(at::kCPU));
}

at::Tensor decode_frames(Tokenizer& tokenizer, const at::Tensor& latent, at::Device device,
                         const kinora_run* run) {
  const int64_t dim = latent.dim() - 3, pieces = latent.size(dim);
  const auto stream = pieces > 1 ? tokenizer.open_stream(true, run) : nullptr;
  if (!stream) return decoded_frames(tokenizer.decode(latent.to(device), run).to(at::kCPU));
  at::Tensor out;
  int64_t at = 0;
  for (int64_t i = 0; i < pieces; ++i) {
    between(run, i, pieces);
    const at::Tensor piece = decode_next(*stream, latent.narrow(dim, i, 1), device, run);
    if (i == 0)
      out = at::empty({1 + (pieces - 1) * tokenizer.info().time, piece.size(1), piece.size(2), 3}, at::kByte);
    out.narrow(0, at, piece.size(0)).copy_(piece);
    at += piece.size(0);
  }
  return out;
}

Stretch stretch_of(int64_t pieces, int64_t rank, int64_t ranks) {
  const auto first_of = [&](int64_t r) { return (pieces * r + ranks - 1) / ranks; };
  return {first_of(rank), first_of(rank + 1) - first_of(rank)};
}

Stretch frames_behind(const kinora_tokenizer_info& info, int64_t frames, const Stretch& latent) {
  if (latent.count == 0) return {};
  const int64_t from = info.encode_span > 0 ? std::max<int64_t>(latent.first - info.encode_span, 0) : 0,
                last = latent.first + latent.count - 1;
  return {info.time * from, std::min(1 + info.time * (last - from), frames)};
}

at::Tensor encode_part(Tokenizer& tokenizer, int64_t frames, int64_t first, int64_t count,
                       const FramesOf& video, const kinora_run* run) {
  const auto info = tokenizer.info();
  const Stretch behind = frames_behind(info, frames, {first, count});
  const auto later = [&](int64_t at, int64_t n) { return video(behind.first + at, n); };
  const at::Tensor latent = encode_video(tokenizer, behind.count, later, run);
  return latent.narrow(latent.dim() - 3, first - behind.first / info.time, count);
}

at::Tensor decode_part(Tokenizer& tokenizer, const at::Tensor& latent, at::Device device, int64_t first,
                       int64_t count, const kinora_run* run) {
  const auto info = tokenizer.info();
  // One latent frame more than `first` depends on, because the first of a stream gives one frame only.
  const int64_t from = info.decode_span > 0 ? std::max<int64_t>(first - info.decode_span, 0) : 0;
  const at::Tensor frames =
      decode_frames(tokenizer, latent.narrow(latent.dim() - 3, from, first + count - from), device, run);
  const int64_t before = first == from ? 0 : 1 + (first - from - 1) * info.time;
  return frames.narrow(0, before, frames.size(0) - before);
}

at::Tensor decode_together(Tokenizer& tokenizer, const at::Tensor& latent, at::Device device,
                           const kinora_group& ranks, const kinora_run* run) {
  const Group<at::Tensor> group(&ranks);
  const int64_t P = group.size(), pieces = latent.size(latent.dim() - 3), time = tokenizer.info().time;
  const bool alone = P == 1 || pieces < P || !tokenizer.open_stream(true, run);
  if (alone) return group.rank() == 0 ? decode_frames(tokenizer, latent, device, run) : at::Tensor();
  const auto first_of = [&](int64_t r) { return pieces * r / P; };
  const int64_t mine = first_of(group.rank());
  const at::Tensor own = decode_part(tokenizer, latent, device, mine, first_of(group.rank() + 1) - mine, run);
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

at::Tensor encode_together(Tokenizer& tokenizer, int64_t frames, const FramesOf& video, at::Device device,
                           const kinora_group& ranks, const kinora_run* run) {
  const Group<at::Tensor> group(&ranks);
  const int64_t P = group.size(), pieces = 1 + (frames - 1) / tokenizer.info().time;
  if (P == 1) return encode_video(tokenizer, frames, video, run);
  const Stretch mine = stretch_of(pieces, group.rank(), P);
  at::Tensor own;
  if (mine.count > 0) own = encode_part(tokenizer, frames, mine.first, mine.count, video, run);
  const int64_t dim = own.defined() ? own.dim() - 3 : 0;
  const auto frame_of = [&](int64_t i) { return own.narrow(dim, i, 1).contiguous().to(device); };
  if (group.rank() > 0) {
    for (int64_t i = 0; i < mine.count; ++i) group.send(frame_of(i), 0, mine.first + i).finish();
    return {};
  }
  std::vector<at::Tensor> all{own};
  const at::Tensor like = frame_of(0);
  for (int64_t r = 1; r < P; ++r) {
    const Stretch theirs = stretch_of(pieces, r, P);
    for (int64_t i = theirs.first; i < theirs.first + theirs.count; ++i)
      all.push_back(group.receive(like, r, i).finish().to(at::kCPU));
  }
  return at::cat(all, dim);
}

}  // namespace kinora::core
