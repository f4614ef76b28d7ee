#include "plugins/jobs/training/generating/frame_rule.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

void require_frames(const FrameOptions& o) {
  const char* alone = o.chunk != 1 ? "chunk" : o.window > 0 ? "window" : o.sink > 0 ? "sink" : nullptr;
  if (alone && !o.in_chunks())
    raise(KINORA_INVALID, "{} applies to causal frames; add causal = true or teacher_forcing = true", alone);
  if (o.sink > 0 && o.window == 0)
    raise(KINORA_INVALID, "sink keeps chunks visible that a window would hide; set window, such as window = 4");
}

Frames generating_rule(const FrameOptions& o) {
  Frames out;
  out.causal = o.in_chunks();
  out.chunk = o.chunk;
  out.window = o.window;
  out.sink = o.sink;
  return out;
}

Frames training_rule(const FrameOptions& o) {
  Frames out = generating_rule(o);
  out.streams = o.teacher_forcing ? 2 : 1;
  return out;
}

double clean_sigma(const LossInstance& loss, double otherwise) {
  const at::Tensor none = at::zeros({1}, at::kDouble);
  const at::Tensor told = loss.input(none.view({1, 1, 1, 1, 1}), none).timestep;
  return at::isfinite(told).all().item<bool>() ? 0 : otherwise;
}

Rollout rollout_of(const FrameOptions& o, const LossInstance& loss, double condition_sigma) {
  if (!o.teacher_forcing) return {};
  return {o.chunk, loss.mix(), clean_sigma(loss, condition_sigma)};
}

at::Tensor roll_out(const Rollout& how, const at::Tensor& noise, std::optional<FrameCondition> given,
                    const SampleFrames& sample) {
  const int64_t all = noise.size(2);
  const auto until = [&](int64_t end) {
    const at::Tensor latent = sample(noise.narrow(2, 0, end), given ? &*given : nullptr).clone();
    if (given) latent.narrow(2, 0, given->frames()).copy_(given->clean());
    return latent;
  };
  if (how.chunk == 0) return until(all);
  if (given) given = FrameCondition(given->clean(), how.mix, how.sigma);
  do {
    const int64_t done = given ? given->frames() : 0;
    given = FrameCondition(until(std::min(all, (done / how.chunk + 1) * how.chunk)), how.mix, how.sigma);
  } while (given->frames() < all);
  return given->clean();
}

NamedTensors of_first_frames(NamedTensors conditions, int64_t frames, const FrameCondition* given) {
  for (auto& [name, tensor] : conditions)
    if (tensor.dim() == 5)
      tensor = given && name == "condition_mask" ? given->mask(frames) : tensor.narrow(2, 0, frames);
  return conditions;
}

}  // namespace kinora::core
