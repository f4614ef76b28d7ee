#include "plugins/jobs/distill/self_forcing.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/runtime/call.hpp"
#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

at::Tensor noisy_estimate(Model& network, const Objective& objective, const NamedTensors& batch,
                          const at::Tensor& noisy, const at::Tensor& levels) {
  const at::Tensor out = network.forward(objective.noisy_inputs(batch, noisy, levels)).at(0);
  const int64_t T = noisy.size(2);
  return objective.loss().estimate(noisy.to(at::kDouble), levels, out.narrow(2, out.size(2) - T, T));
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

GuidedConditions SelfForcing::prepared(const Guided& conditions, const Rollout::Piece& piece,
                                       uint64_t session) const {
  const auto own = [&](NamedTensors all) {
    all.erase("latent");
    return of_piece(std::move(all), piece);
  };
  GuidedConditions out = denoiser_.prepared(own(conditions.with), own(conditions.none),
                                            {Guidance{.scale = conditions.guidance}});
  Frames frames = generating_rule(how_.rule);
  frames.start = piece.first;
  out.place = {session, frames};
  return out;
}

SelfForcing::NoiseOfStep SelfForcing::noise_of_step(const std::vector<int64_t>& shape, int64_t first_sample,
                                                    const std::string& key) const {
  return [=, this](int64_t first, int64_t count, size_t step) {
    const at::Tensor like = at::empty({shape[0], shape[1], shape[3], shape[4]}, at::kDouble);
    std::vector<at::Tensor> frames;
    for (int64_t f = first; f < first + count; ++f)
      frames.push_back(sample_noise(like, how_.seed, first_sample, fmt::format("{}.{}.{}", key, f, step)));
    return at::stack(frames, 2);
  };
}

SelfForcing::Video SelfForcing::begin(const std::vector<int64_t>& shape, int64_t first_sample,
                                      const std::string& key, uint64_t session,
                                      const at::Tensor& known) const {
  RolloutPlan plan = rollout_plan(how_.rule, loss_, how_.condition_sigma, shape[2]);
  plan.keeps = true;
  std::optional<FrameCondition> given;
  if (known.defined()) given.emplace(known, plan.mix, plan.sigma);
  const NoiseOfStep noise = noise_of_step(shape, first_sample, key);
  const auto first_noise = [noise](int64_t first, int64_t count) { return noise(first, count, 0); };
  return {Rollout(plan, first_noise, std::move(given)), noise, session};
}

at::Tensor SelfForcing::make(
    const Guided& conditions, Video& video, int64_t frames,
    const std::function<at::Tensor(GuidedConditions&, const Rollout::Piece&)>& sample) {
  const at::NoGradGuard off;
  kinora_pass before = student_.chain().pass();
  before.struct_size = sizeof before;  // 0 before the first pass
  denoiser_.work_for(before.step, before.steps);
  const auto sample_piece = [&](const Rollout::Piece& piece) {
    GuidedConditions in = prepared(conditions, piece, video.session);
    return sample(in, piece);
  };
  const auto read = [&](int64_t first, const FrameCondition& finished) {
    GuidedConditions in = prepared(conditions, {first, finished.clean(), &finished}, video.session);
    denoiser_.read(in, finished.clean(), finished.levels(finished.clean().size(0)));
  };
  Rollout& loop = video.loop;
  const int64_t first = loop.known();
  while (loop.known() < first + frames) loop.next(sample_piece, read);
  if (loop.done()) cache_.reset(video.session);
  Frames rule = training_rule(how_.rule);
  rule.start = first;
  student_.chain().set_frames(rule);
  student_.chain().begin(before);
  return loop.latent(first);
}

void SelfForcing::forget(Video& video) {
  cache_.reset(video.session);
  video.loop.rewind(video.loop.finished());
}

SelfForced SelfForcing::next(Video& video, int64_t frames, const NamedTensors& conditions,
                             const std::vector<int64_t>& exits, EarlierKeysLink* earlier) {
  const int64_t begin = video.loop.known(), first_chunk = how_.rule.chunks().of(begin);
  std::vector<at::Tensor> noisy, levels;
  if (earlier) earlier->clear();
  const auto sample = [&](GuidedConditions& in, const Rollout::Piece& piece) {
    if (earlier) earlier->note(piece.first == begin);
    const auto chunk = static_cast<size_t>(how_.rule.chunks().of(piece.first) - first_chunk);
    const int64_t B = piece.noise.size(0);
    const auto last = static_cast<size_t>(exits.at(chunk));
    at::Tensor x0;
    size_t step = 0;  // calls of the network
    const auto denoise = [&](const at::Tensor& x, const at::Tensor& level) {
      if (step > last) return x0;  // what a sampler computes after the exit step does not count
      x0 = denoiser_(in, x, level);
      if (step++ == last) {
        noisy.push_back(x);
        levels.push_back(level.unsqueeze(1).expand({B, piece.frames()}));
      }
      return x0;
    };
    if (how_.sampler) {
      NeededCall call;
      FunctionDenoiser steps(denoise);
      how_.sampler->sample(steps.abi(), piece.noise, run_of(call));
      return x0;
    }
    for (at::Tensor x = piece.noise;;) {
      denoise(x, at::full({B}, how_.levels.at(step), at::kDouble));
      if (step > last) return x0;
      const double next = how_.levels.at(step);
      x = (1 - next) * x0 + next * video.noise(piece.first, piece.frames(), step);
    }
  };
  at::Tensor x = make({conditions, conditions, 1}, video, frames, sample);
  return {std::move(x), at::cat(noisy, 2), at::cat(levels, 1)};
}

at::Tensor SelfForcing::trajectory(const NamedTensors& with, const NamedTensors& none, double guidance,
                                   int64_t steps, const std::vector<int64_t>& shape, int64_t first_sample,
                                   const std::string& key) {
  const int64_t B = shape[0];
  std::vector<std::vector<at::Tensor>> chunks(how_.levels.size());  // by level
  const auto sample = [&](GuidedConditions& in, const Rollout::Piece& piece) {
    at::Tensor x = piece.noise;
    for (size_t i = 0; i < chunks.size(); ++i) {
      chunks[i].push_back(x);
      const double from = how_.levels[i], to = i + 1 < chunks.size() ? how_.levels[i + 1] : 0;
      const auto level = [&](int64_t step) {
        return from + (to - from) * static_cast<double>(step) / static_cast<double>(steps);
      };
      for (int64_t step = 0; step < steps; ++step) {
        const double share = level(step + 1) / level(step);
        x = share * x + (1 - share) * denoiser_(in, x, at::full({B}, level(step), at::kDouble));
      }
    }
    return x;
  };
  Video video = begin(shape, first_sample, key);
  const at::Tensor end = make({with, none, guidance}, video, shape[2], sample);
  std::vector<at::Tensor> out;
  for (const auto& of_level : chunks) out.push_back(at::cat(of_level, 2));
  out.push_back(end);
  return at::stack(out);
}

}  // namespace kinora::core
