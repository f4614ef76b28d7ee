#include "plugins/jobs/training/sample_grid.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "core/torch/network/instances.hpp"
#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "plugins/jobs/media/clips.hpp"
#include "plugins/jobs/media/strip.hpp"
#include "plugins/jobs/inference/parts.hpp"

namespace kinora::core {
namespace {

// The tokenizer that encoded the latents.
std::unique_ptr<Tokenizer> tokenizer_of(JobContext& context) {
  const JobView encode(context.runtime(), context.run(), context.need_upstream("encode"));
  if (!encode.spec().component("tokenizer") && !encode.upstream("train-tokenizer")) return nullptr;
  return open_part(encode, part_of(encode, "tokenizer", "tokenizer_weights", "train-tokenizer"));
}

}  // namespace

std::unique_ptr<SamplerInstance> sample_sampler(const JobView& context, const TrainOptions& o, uint32_t mix) {
  if (const auto* own = context.spec().component("sampler"))
    return std::make_unique<SamplerInstance>(context.open(*own), own->options);
  const auto sampler = or_throw(context.runtime().registry().open(
      mix == KINORA_MIX_RECTIFIED_FLOW ? "sampler/flow-euler" : "sampler/edm-heun"));
  const auto options = or_throw(Options::make(*sampler.spec, {{"steps", o.sample_steps}}));
  return std::make_unique<SamplerInstance>(sampler, options);
}

void require_samples(const TrainOptions& o) {
  if (o.samples > o.validation_samples)
    raise(KINORA_ERROR_INVALID,
          "samples = {} is more than validation_samples = {}, from which they are taken; raise that option",
          o.samples, o.validation_samples);
}

SampleGrid::SampleGrid(JobContext& context, const TrainOptions& o, const Validation& validation,
                       const Objective& objective, const LatentFacts& facts, Model& network,
                       GuidedModel&& guided, bool writes)
    : context_(context),
      options_(o),
      validation_(validation),
      objective_(objective),
      facts_(facts),
      network_(network),
      guided_(std::move(guided)),
      writes_(writes),
      sampler_(sample_sampler(context, o, objective.mix())),
      tokenizer_(writes ? tokenizer_of(context) : nullptr) {
  require_samples(o);
}

at::Tensor SampleGrid::made(const Validation::Sample& s) {
  const at::Tensor clean = s.batch.at("latent").to(at::kCPU, at::kDouble);
  const int64_t given = s.given.frames.empty() ? 0 : s.given.frames[0];
  std::optional<FrameCondition> condition;
  if (given > 0) condition.emplace(clean.narrow(2, 0, given), objective_.mix(), options_.condition_sigma);
  Conditions with = s.batch;
  with.erase("latent");
  if (objective_.condition_input(clean) == ConditionInput::mask)
    with["condition_mask"] =
        condition ? condition->mask(clean.size(2)) : at::zeros_like(clean.narrow(1, 0, 1), at::kFloat);
  const auto seed = static_cast<uint64_t>(context_.run().seed);
  Rollout loop(rollout_plan(options_, objective_.loss(), options_.condition_sigma, clean.size(2)),
               noise_of(sample_noise(clean, seed, s.number, "train.samples")), condition);
  while (!loop.done()) loop.next([&](const Rollout::Piece& piece) { return made(with, s.number, piece); });
  return loop.latent();
}

at::Tensor SampleGrid::made(const Conditions& of_video, int64_t number, const Rollout::Piece& piece) {
  const Conditions with = of_piece(of_video, piece);
  GuidedConditions video = guided_.prepared(with, with, {});
  FunctionDenoiser denoiser([&](const at::Tensor& x, const at::Tensor& sigma) {
    const Mixed in = remixed({x, sigma}, sampler_->mix(), objective_.mix());
    const auto ask = [&](const at::Tensor& a, const at::Tensor& b) { return guided_(video, a, b); };
    return piece.given ? (*piece.given)(in.x, in.sigma, ask) : ask(in.x, in.sigma);
  });
  Call call{static_cast<uint64_t>(context_.run().seed), number};
  // An interruption takes effect at the end of the step, with a checkpoint.
  kinora_run run = run_of(call);
  run.progress = nullptr;
  run.cancelled = nullptr;
  return sampler_->sample(denoiser.abi(), piece.noise, run);
}

at::Tensor SampleGrid::row(const at::Tensor& was, const at::Tensor& made) {
  const auto video = [&](const at::Tensor& latent) {
    const at::Tensor pixels = facts_.scale.denormalise(latent.to(at::kCPU, at::kFloat));
    return frames_of(tokenizer_->decode(pixels));
  };
  const at::Tensor before = video(was), after = video(made);
  const int64_t last = after.size(0) - 1;
  return at::cat({before[last / 2], after[0], after[last / 2], after[last]}, 1);
}

std::optional<std::filesystem::path> SampleGrid::draw(int64_t step) {
  const at::NoGradGuard off;
  const Frames rule = network_.chain().frames();
  if (rule.streams > 1) network_.chain().set_frames(generating_rule(options_));
  std::vector<at::Tensor> latents, rows;
  const auto count = std::min(validation_.size(), static_cast<size_t>(options_.samples));
  for (size_t i = 0; i < count; ++i) {
    const auto sample = validation_.sample(i);
    latents.push_back(made(sample));
    if (tokenizer_) rows.push_back(row(sample.batch.at("latent"), latents.back()));
  }
  if (rule.streams > 1) network_.chain().set_frames(rule);
  if (!writes_) return std::nullopt;
  const auto folder = context_.folder() / "samples";
  const auto file = [&](const char* end) { return folder / fmt::format("step-{:06}{}", step, end); };
  std::filesystem::create_directories(folder);
  write_tensors(file(".safetensors"), {{"latent", at::cat(latents)}});
  if (!tokenizer_) return std::nullopt;
  write_strip(context_, at::cat(rows).unsqueeze(0), 1, file(".png"));
  return file(".png");
}

}  // namespace kinora::core
