#include "plugins/jobs/inference/rollout.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

NoiseOf noise_of(at::Tensor video) {
  return [video = std::move(video)](int64_t first, int64_t count) {
    return video.narrow(2, first, count).clone();
  };
}

NoiseOf noise_by_frames(std::vector<int64_t> shape, uint64_t seed, int64_t video) {
  return [shape = std::move(shape), seed, video](int64_t first, int64_t count) {
    const at::Tensor like = at::empty({1, shape[0], shape[1], shape[2]}, at::kDouble);
    std::vector<at::Tensor> frames;
    for (int64_t f = first; f < first + count; ++f)
      frames.push_back(sample_noise(like, seed, video, fmt::format("generate.noise.{}", f)));
    return at::stack(frames, 2);
  };
}

RolloutPlan rollout_plan(const FrameOptions& o, const LossInstance& loss, double condition_sigma,
                         int64_t frames) {
  if (!o.teacher_forcing) return {.frames = frames};
  return {
      .frames = frames, .chunks = o.chunks(), .mix = loss.mix(), .sigma = clean_sigma(loss, condition_sigma)};
}

Rollout::Rollout(const RolloutPlan& plan, NoiseOf noise, std::optional<FrameCondition> given)
    : plan_(plan), noise_(std::move(noise)), given_(std::move(given)) {
  if (plan_.keeps && !has_chunks()) throw std::logic_error("a rollout that keeps keys and values has chunks");
  if (!given_) return;
  if (given_->frames() >= plan_.frames)
    raise(KINORA_ERROR_INVALID, "{} latent frames are given of {} to generate; make a longer video",
          given_->frames(), plan_.frames);
  store(given_->clean());
}

void Rollout::store(const at::Tensor& frames) {
  if (!latents_.defined()) {
    auto shape = frames.sizes().vec();
    shape[2] = plan_.frames;
    latents_ = at::empty(shape, frames.options().dtype(plan_.stored));
  }
  const int64_t count = frames.size(2);
  latents_.narrow(2, known_, count).copy_(frames);
  known_ += count;
}

int64_t Rollout::end_after(int64_t frames) const {
  const Chunks& chunks = plan_.chunks;
  return has_chunks() ? std::min(plan_.frames, chunks.begin(chunks.of(frames) + 1)) : plan_.frames;
}

int64_t Rollout::chunks_left() const {
  if (done()) return 0;
  int64_t out = 1;
  for (int64_t end = end_after(known_); end < plan_.frames; end = end_after(end)) ++out;
  return out;
}

void Rollout::read_chunks(int64_t first, int64_t end, const Read& read) {
  for (int64_t chunk = first; chunk < end; ++chunk) {
    const int64_t at = plan_.chunks.begin(chunk);
    read(at, {known(at, plan_.chunks.begin(chunk + 1)), plan_.mix, plan_.sigma});
  }
  read_ = plan_.chunks.begin(end);
}

// Known frames are never sampled again.
void Rollout::next(const Sample& sample, const Read& read) {
  const int64_t end = end_after(known_), chunk = has_chunks() ? plan_.chunks.begin(next_chunk()) : 0,
                begin = plan_.keeps ? chunk : 0;
  if (plan_.keeps) read_finished(read);
  std::optional<FrameCondition> before;
  if (!has_chunks())
    before = given_;
  else if (known_ > begin)
    before.emplace(known(begin, known_), plan_.mix, plan_.sigma);
  const at::Tensor made =
      sample({begin, noise_(begin, end - begin), before ? &*before : nullptr, chunk - begin});
  store(made.narrow(2, known_ - begin, end - known_));
  finished_ = end;
}

void Rollout::rewind(int64_t frames) {
  if (frames < 0 || frames > finished_ ||
      (frames < finished_ && plan_.chunks.begin(plan_.chunks.of(frames)) != frames))
    raise(KINORA_ERROR_INVALID, "latent frame {} is not the end of a chunk of {} that is finished", frames,
          plan_.chunks.each);
  known_ = std::max(frames, given_ ? given_->frames() : 0);
  if (latents_.defined()) {  // the views that latent() gave keep their values
    const at::Tensor before = known(0, known_);
    latents_ = at::empty_like(latents_);
    known(0, known_).copy_(before);
  }
  finished_ = frames;
  read_ = 0;
}

NamedTensors of_piece(NamedTensors conditions, const Rollout::Piece& piece) {
  const int64_t frames = piece.frames();
  for (auto& [name, tensor] : conditions)
    if (tensor.dim() == 5)
      tensor = piece.given && name == "condition_mask" ? piece.given->mask(frames)
                                                       : tensor.narrow(2, piece.first, frames);
  return conditions;
}

}  // namespace kinora::core
