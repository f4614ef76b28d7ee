#include "plugins/jobs/training/generating/frame_condition.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

ToldBy told_by(const ComponentSpec& model, int64_t in_channels, int64_t latent_channels,
               int64_t condition_channels) {
  const auto takes = [&](const char* name) {
    return std::any_of(model.inputs.begin(), model.inputs.end(),
                       [&](const auto& i) { return i.name == name; });
  };
  const int64_t extra = in_channels - latent_channels;
  if (extra <= 0) return ToldBy::level;  // below 0: a named size says how many there are, not in_channels
  if (extra == 1 && takes("condition_mask")) return ToldBy::mask;
  const bool fits = condition_channels == 0 ? extra > latent_channels : extra == condition_channels;
  if (fits && takes("condition")) return ToldBy::channels;
  raise(KINORA_INVALID, "{} has {} input channels and the latent {}; the meaning of the others is unknown",
        model.id, in_channels, latent_channels);
}

at::Tensor given_frames(const std::vector<int64_t>& given, int64_t frames) {
  return at::arange(frames).unsqueeze(0) < at::tensor(given, at::kLong).unsqueeze(1);
}

FramesOf followed_by_grey(const at::Tensor& picture) {
  return [picture](int64_t first, int64_t count) {
    auto shape = picture.sizes().vec();
    shape[2] = first == 0 ? count - 1 : count;
    const at::Tensor grey = at::zeros(shape, picture.options());
    return first == 0 ? at::cat({picture, grey}, 2) : grey;
  };
}

FramesOf ended_by(FramesOf video, int64_t frames, const at::Tensor& picture) {
  return [video = std::move(video), frames, picture](int64_t first, int64_t count) {
    at::Tensor out = video(first, count);
    if (first + count == frames) out.narrow(2, count - 1, 1).copy_(picture);
    return out;
  };
}

at::Tensor masked_picture(const at::Tensor& latent, int64_t time, bool ends) {
  auto shape = latent.sizes().vec();
  shape[1] = time;
  at::Tensor mask = at::zeros(shape, latent.options());
  mask.select(2, 0).fill_(1);
  if (ends) mask.select(2, shape[2] - 1).select(1, time - 1).fill_(1);
  return at::cat({mask, latent}, 1);
}

double level_of(double sigma, uint32_t mix) { return mix == KINORA_MIX_BLEND ? sigma / (1 + sigma) : sigma; }

FrameCondition::FrameCondition(at::Tensor clean, uint32_t mix, double level)
    : clean_(clean.to(at::kDouble)), level_(level_of(level, mix)) {}

at::Tensor FrameCondition::operator()(const at::Tensor& x, const at::Tensor& sigma,
                                      const Denoise& denoise) const {
  const int64_t given = frames(), all = x.size(2);
  if (given >= all)
    raise(KINORA_INVALID, "{} latent frames are given of {} to generate; make a longer video", given, all);
  at::Tensor seen = x.clone(), levels = sigma.view({-1, 1}).expand({x.size(0), all}).clone();
  seen.narrow(2, 0, given).copy_(clean_.expand({x.size(0), -1, -1, -1, -1}));
  levels.narrow(1, 0, given).fill_(level_);
  at::Tensor x0 = denoise(seen, levels).clone();
  x0.narrow(2, 0, given).copy_(seen.narrow(2, 0, given));
  return x0;
}

at::Tensor FrameCondition::mask(int64_t frames) const {
  return given_frames({this->frames()}, frames)
      .to(at::kFloat)
      .view({1, 1, frames, 1, 1})
      .expand({1, 1, frames, clean_.size(3), clean_.size(4)});
}

}  // namespace kinora::core
