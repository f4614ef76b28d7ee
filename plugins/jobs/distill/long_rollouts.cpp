#include "plugins/jobs/distill/long_rollouts.hpp"

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

// A sample's conditions have the frames of one window.
void require_no_frames(const NamedTensors& conditions) {
  for (const auto& [name, tensor] : conditions)
    if (name != "latent" && tensor.dim() == 5)
      raise(KINORA_ERROR_UNSUPPORTED,
            "video_windows: the model reads '{}' of {} latent frames, and a sample has none for the windows "
            "after the first; leave video_windows out",
            name, tensor.size(2));
}

}  // namespace

int64_t LongRollouts::origin(int64_t first, int64_t step) const {
  return first - window(step) * how_.every * how_.batch;
}

SelfForcing::Video& LongRollouts::video(const std::vector<int64_t>& shape, int64_t first, int64_t step) {
  const int64_t place = first - step * how_.batch, known = begin(window(step), shape[2]);
  if (known == 0) restored_.reset();
  const auto found = videos_.find(place);
  if (found != videos_.end()) return found->second;
  auto whole = shape;
  whole[2] = begin(how_.windows, shape[2]);
  at::Tensor latents;
  if (known > 0) {
    if (!restored_.defined() || restored_.size(2) != known)
      raise(KINORA_ERROR_DATA,
            "the checkpoint does not have the {} latent frames before window {} of the student's videos; "
            "rerun the job from scratch",
            known, window(step) + 1);
    latents = restored_.narrow(0, place, shape[0]);
  }
  const uint64_t session = how_.session + how_.sessions * static_cast<uint64_t>(place);
  return videos_
      .emplace(place,
               forcing_.begin(whole, origin(first, step), "distill.rollout." + how_.role, session, latents))
      .first->second;
}

LongRollouts::Made LongRollouts::next(const NamedTensors& conditions, const std::vector<int64_t>& shape,
                                      const std::vector<int64_t>& exits, int64_t first, int64_t step) {
  if (how_.windows > 1) require_no_frames(conditions);
  const int64_t T = shape[2];
  SelfForcing::Video& continued = video(shape, first, step);
  SelfForced window = forcing_.next(continued, frames(step, T), conditions, exits, how_.earlier);
  const Rollout& loop = continued.loop;
  Made out{std::move(window), loop.latent(loop.finished() - T)};
  if (loop.done()) videos_.erase(first - step * how_.batch);
  return out;
}

void LongRollouts::forget() {
  for (auto& [place, video] : videos_) forcing_.forget(video);
}

at::Tensor LongRollouts::state(int64_t steps, const Parallelism& parallel) const {
  if (steps / how_.every % how_.windows == 0) return {};
  if (videos_.empty()) return restored_;
  at::Tensor all;
  for (const auto& [place, video] : videos_) {
    const at::Tensor x = video.loop.latent().to(forcing_.stream()).to(parallel.parameter_dtype());
    auto shape = x.sizes().vec();
    shape[0] = how_.batch;
    if (!all.defined()) all = at::zeros(shape, x.options());
    all.narrow(0, place, x.size(0)).copy_(x);
  }
  return parallel.sum_of_data(all);
}

}  // namespace kinora::core
