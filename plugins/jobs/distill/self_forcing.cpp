#include "plugins/jobs/distill/self_forcing.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

constexpr uint64_t kSession = 1;  // of the cache; 0 goes past it

}  // namespace

at::Tensor two_stream_estimate(Model& network, const Objective& objective, const NamedTensors& batch,
                               const at::Tensor& noisy, const at::Tensor& levels) {
  const at::Tensor out = network.forward(objective.two_stream_inputs(batch, noisy, levels)).at(0);
  const int64_t T = noisy.size(2);
  return objective.loss().estimate(noisy.to(at::kDouble), levels, out.narrow(2, T, T));
}

SelfForcing::SelfForcing(Model& student, CacheInstance& cache, const ComponentSpec& model,
                         const LossInstance& loss, How how)
    : student_(student),
      cache_(cache),
      loss_(loss),
      how_(std::move(how)),
      experts_(student),
      denoiser_(experts_, model, how_.signals, loss, how_.stream, how_.seed, how_.device) {
  if (!how_.rule.teacher_forcing)
    raise(KINORA_ERROR_INVALID,
          "self-forcing makes a video chunk by chunk, as a model learns with teacher_forcing = true");
  if (loss.mix() != KINORA_MIX_RECTIFIED_FLOW)
    raise(KINORA_ERROR_INVALID,
          "self-forcing needs a model whose loss blends latent and noise, such as flow; {} adds noise",
          loss.spec().id);
}

GuidedConditions SelfForcing::prepared(const NamedTensors& conditions, const Rollout::Piece& piece) const {
  const NamedTensors own = of_piece(conditions, piece);
  GuidedConditions out = denoiser_.prepared(own, own, {});
  Frames frames = generating_rule(how_.rule);
  frames.start = piece.first;
  out.place = {kSession, frames};
  return out;
}

SelfForced SelfForcing::roll_out(NamedTensors conditions, const std::vector<int64_t>& shape,
                                 const std::vector<int64_t>& exits, int64_t first_sample,
                                 const std::string& key) {
  const at::NoGradGuard off;
  conditions.erase("latent");
  kinora_pass before = student_.chain().pass();
  before.struct_size = sizeof before;  // 0 before the first pass
  denoiser_.work_for(before.step, before.steps);
  const int64_t B = shape[0], T = shape[2];
  const auto noise = [&](int64_t first, int64_t count, size_t step) {
    const at::Tensor like = at::empty({B, shape[1], shape[3], shape[4]}, at::kDouble);
    std::vector<at::Tensor> frames;
    for (int64_t f = first; f < first + count; ++f)
      frames.push_back(sample_noise(like, how_.seed, first_sample, fmt::format("{}.{}.{}", key, f, step)));
    return at::stack(frames, 2);
  };
  RolloutPlan plan = rollout_plan(how_.rule, loss_, how_.condition_sigma, T);
  plan.keeps = true;
  Rollout loop(
      plan, [&](int64_t first, int64_t count) { return noise(first, count, 0); }, std::nullopt);
  std::vector<at::Tensor> noisy, levels;
  const auto sample = [&](const Rollout::Piece& piece) {
    GuidedConditions video = prepared(conditions, piece);
    const auto last = static_cast<size_t>(exits.at(static_cast<size_t>(how_.rule.chunks().of(piece.first))));
    at::Tensor x = piece.noise;
    for (size_t step = 0;; ++step) {
      const at::Tensor x0 = denoiser_(video, x, at::full({B}, how_.levels.at(step), at::kDouble));
      if (step == last) {
        noisy.push_back(x);
        levels.push_back(at::full({B, piece.frames()}, how_.levels[step], at::kDouble));
        return x0;
      }
      const double next = how_.levels.at(step + 1);
      x = (1 - next) * x0 + next * noise(piece.first, piece.frames(), step + 1);
    }
  };
  const auto read = [&](int64_t first, const FrameCondition& finished) {
    GuidedConditions video = prepared(conditions, {first, finished.clean(), &finished});
    denoiser_.read(video, finished.clean(), finished.levels(B));
  };
  while (!loop.done()) loop.next(sample, read);
  cache_.reset(kSession);
  student_.chain().set_frames(training_rule(how_.rule));
  student_.chain().begin(before);
  return {loop.latent(), at::cat(noisy, 2), at::cat(levels, 1)};
}

}  // namespace kinora::core
