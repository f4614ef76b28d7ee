#include "core/torch/generating/frame_condition.hpp"

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

FrameCondition::FrameCondition(at::Tensor clean, uint32_t mix, double level)
    : clean_(clean.to(at::kDouble)), level_(level) {
  if (mix == KINORA_MIX_BLEND) level_ = level / (1 + level);
}

at::Tensor FrameCondition::operator()(const at::Tensor& x, const at::Tensor& sigma,
                                      const Denoise& denoise) const {
  const int64_t given = frames(), all = x.size(2);
  if (given >= all)
    raise(KINORA_INVALID, "{} latent frames are given of {} to generate; ask for a longer video", given, all);
  at::Tensor seen = x.clone(), levels = sigma.view({-1, 1}).expand({x.size(0), all}).clone();
  seen.narrow(2, 0, given).copy_(clean_.expand({x.size(0), -1, -1, -1, -1}));
  levels.narrow(1, 0, given).fill_(level_);
  at::Tensor x0 = denoise(seen, levels).clone();
  x0.narrow(2, 0, given).copy_(seen.narrow(2, 0, given));
  return x0;
}

at::Tensor FrameCondition::mask(int64_t frames) const {
  at::Tensor out = at::zeros({1, 1, frames, clean_.size(3), clean_.size(4)});
  out.narrow(2, 0, this->frames()).fill_(1);
  return out;
}

}  // namespace kinora::core
