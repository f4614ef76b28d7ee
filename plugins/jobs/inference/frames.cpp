#include "plugins/jobs/inference/frames.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/inference/rules.hpp"

namespace kinora::core {

ConditionInput condition_input_of(const ComponentSpec& model, int64_t in_channels, int64_t latent_channels,
                                  int64_t condition_channels) {
  const int64_t extra = in_channels - latent_channels;
  if (extra <= 0)
    return ConditionInput::level;  // below 0: a named size says how many there are, not in_channels
  if (extra == 1 && takes_input(model, "condition_mask")) return ConditionInput::mask;
  // `condition` is a picture's latent behind at least one mask channel, hence more channels than the latent has.
  const bool fits = condition_channels == 0 ? extra > latent_channels : extra == condition_channels;
  if (fits && takes_input(model, "condition")) return ConditionInput::channels;
  raise(KINORA_ERROR_INVALID,
        "{} has {} input channels and the latent {}; the meaning of the others is unknown", model.id,
        in_channels, latent_channels);
}

// Compares [1, T] with [B, 1].
at::Tensor given_frames(const std::vector<int64_t>& given, int64_t frames) {
  return at::arange(frames).unsqueeze(0) < at::tensor(given, at::kLong).unsqueeze(1);
}

// Pixels are in [-1, 1], so grey is 0. Frames come in pieces, so that a long video is never whole in memory.
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

// With x_t = (1 - t) x0 + t n (rectified flow), noise over signal is sigma = t / (1 - t), so t = sigma / (1 + sigma).
double level_of(double sigma, uint32_t mix) {
  return mix == KINORA_MIX_RECTIFIED_FLOW ? sigma / (1 + sigma) : sigma;
}

FrameCondition::FrameCondition(at::Tensor clean, uint32_t mix, double level)
    : clean_(clean.to(at::kDouble)), level_(level_of(level, mix)) {}

at::Tensor FrameCondition::operator()(const at::Tensor& x, const at::Tensor& sigma,
                                      const Denoise& denoise) const {
  const int64_t given = frames(), all = x.size(2);
  if (given >= all)
    raise(KINORA_ERROR_INVALID, "{} latent frames are given of {} to generate; make a longer video", given,
          all);
  at::Tensor seen = x.clone(), levels = sigma.view({-1, 1}).expand({x.size(0), all}).clone();
  seen.narrow(2, 0, given).copy_(clean_.expand({x.size(0), -1, -1, -1, -1}));
  levels.narrow(1, 0, given).fill_(level_);
  // x0 of the given frames is what was given, so a sampler's steps lead them there.
  at::Tensor x0 = denoise(seen, levels).clone();
  x0.narrow(2, 0, given).copy_(seen.narrow(2, 0, given));
  return x0;
}

at::Tensor FrameCondition::levels(int64_t samples) const {
  return at::full({samples, frames()}, level_, at::kDouble);
}

at::Tensor FrameCondition::mask(int64_t frames) const {
  return given_frames({this->frames()}, frames)
      .to(at::kFloat)
      .view({1, 1, frames, 1, 1})
      .expand({1, 1, frames, clean_.size(3), clean_.size(4)});
}

void require_frames(const FrameOptions& o) {
  const char* alone = o.chunk != 1        ? "chunk"
                      : o.first_chunk > 0 ? "first_chunk"
                      : o.window > 0      ? "window"
                      : o.sink > 0        ? "sink"
                                          : nullptr;
  if (alone && !o.in_chunks())
    raise(KINORA_ERROR_INVALID, "{} applies to causal frames; add causal = true or teacher_forcing = true",
          alone);
  if (o.sink > 0 && o.window == 0)
    raise(KINORA_ERROR_INVALID,
          "sink keeps chunks visible that a window would hide; set window, such as window = 4");
}

Frames generating_rule(const FrameOptions& o) {
  Frames out;
  out.causal = o.in_chunks();
  out.chunk = o.chunk;
  out.first_chunk = o.first_chunk;
  out.window = o.window;
  out.sink = o.sink;
  return out;
}

Frames training_rule(const FrameOptions& o) {
  Frames out = generating_rule(o);
  out.streams = o.teacher_forcing ? 2 : 1;
  return out;
}

nlohmann::json cache_of_frames(const FrameOptions& rule, nlohmann::json options) {
  if (!options.contains("capacity") || options.value("window", int64_t{0}) > 0) return options;
  const auto number = [&](const char* name) { return options.value(name, int64_t{0}); };
  const int64_t sink = rule.sink_frames(), window = rule.window_frames();
  if (number("sink") == 0 && (number("capacity") == 0 ? window > 0 : sink < number("capacity")))
    options["sink"] = sink;
  if (number("capacity") == 0 && window > 0) options["capacity"] = window + number("sink");
  return options;
}

// Asks the loss for the timestep of sigma = 0.
double clean_sigma(const LossInstance& loss, double otherwise) {
  const at::Tensor none = at::zeros({1}, at::kDouble);
  const at::Tensor told = loss.input(none.view({1, 1, 1, 1, 1}), none).timestep;
  return at::isfinite(told).all().item<bool>() ? 0 : otherwise;
}

}  // namespace kinora::core
