#include "plugins/jobs/distill/matching.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "core/torch/tensors/noise.hpp"

namespace kinora::core {
namespace {

constexpr const char* kSquare = "latent_square";  // the mean of squares, until all ranks have added theirs
constexpr const char *kStudentRole = "student", *kCriticRole = "critic";

}  // namespace

Matching::Matching(JobContext& context, const DistillOptions& o)
    : DistillTask(context, o),
      matching_(context.open_slot("loss"), context.spec().component("loss")->options),
      critic_(another(parallel_.more_links(), o.critic_weights, true)),  // a checkpoint's weights follow
      critic_objective_(objective_of(*critic_, *part_.use, scores_rule())),
      forcing_(forcing_of(*student_)),
      exits_(static_cast<size_t>(forcing_.steps())) {
  for (const char* role : {kStudentRole, kCriticRole})
    rollouts_by_.emplace(role, LongRollouts(forcing_, rollouts_of(role)));
}

LongRollouts::How Matching::rollouts_of(const std::string& role) {
  const bool learns = role == kStudentRole;
  return {.role = role,
          .windows = options_.video_windows,
          .overlap = options_.window_overlap,
          .every = learns ? options_.every : 1,
          .batch = options_.batch,
          .session = learns ? 1U : 2U,
          .sessions = 2,
          .earlier = learns && options_.video_windows > 1 ? &earlier_ : nullptr};
}

void Matching::begin_step(int64_t step) {
  DistillTask::begin_step(step);
  kept_.reset();
  earlier_.clear();
}

NamedTensors Matching::state() const {
  NamedTensors out;
  for (const auto& [role, rollouts] : rollouts_by_)
    if (at::Tensor latents = rollouts.state(step_ + 1, parallel_); latents.defined())
      out.emplace(role + ".latents", std::move(latents));
  return out;
}

void Matching::restore(NamedTensors state) {
  for (auto& [role, rollouts] : rollouts_by_) rollouts.restore(state[role + ".latents"]);
}

std::unique_ptr<Trained> Matching::critic(const Trained::How& usual) {
  return std::make_unique<Trained>(
      context_, *critic_, parallel_,
      Trained::How{.name = "critic",
                   .optimizer = "critic_optimizer",
                   .learning_rate = [rate = options_.critic_learning_rate](int64_t) { return rate; },
                   .decay = usual.decay,
                   .clip_norm = options_.clip_norm});
}

int64_t Matching::exit(const std::string& role, int64_t step) const {
  const double u = sample_uniform({1}, seed_, step, "distill.exit." + role).item<double>();
  return static_cast<int64_t>(u * static_cast<double>(forcing_.steps()));
}

// One level a sample (Self-Forcing, model/dmd.py), float64: [count, frames], or [count] where no frame is seen clean.
at::Tensor Matching::score_levels(const std::string& role, int64_t first, int64_t count,
                                  int64_t frames) const {
  const at::Tensor u = sample_uniform({count}, seed_, first, "distill.level." + role);
  const at::Tensor levels = options_.shift * u / (1 + (options_.shift - 1) * u);
  const at::Tensor limited = levels.clamp(options_.level_min, options_.level_max);
  if (scores_rule().streams == 1) return limited;
  return limited.unsqueeze(1).expand({count, frames}).contiguous();
}

Matching::Rolled Matching::rolled(const std::string& role, int64_t first, int64_t count) {
  LongRollouts& rollouts = rollouts_by_.at(role);
  Rolled out{drawn(rollouts.origin(first, step_), count), {}, {}, {}};
  const auto shape = out.with.at("latent").sizes().vec();
  const int64_t chunks = forcing_.chunks(rollouts.frames(step_, shape[2]));
  const std::vector<int64_t> exits(static_cast<size_t>(chunks), exit(role, step_));
  auto [window, scored] = rollouts.next(out.with, shape, exits, first, step_);
  out.made = std::move(window);
  out.set_latent(on_device(scored));
  draw_noise(out, role, first);
  return out;
}

void Matching::draw_noise(Rolled& of, const std::string& role, int64_t first) const {
  const at::Tensor& x = of.with.at("latent");
  of.levels = score_levels(role, first, x.size(0), x.size(2)).to(device_);
  of.noise = sample_noise(x, seed_, first, "distill.noise." + role);
}

// The critic's inputs: the student's video of this microbatch with other noise, if it is kept, or an own one.
Matching::Rolled Matching::for_critic(int64_t first, int64_t count) {
  if (!kept_ || kept_->first != first) return rolled(kCriticRole, first, count);
  Rolled out = std::move(kept_->video);
  kept_.reset();
  draw_noise(out, "critic", first);
  return out;
}

MicroLoss Matching::micro_loss(size_t role, int64_t first, int64_t count) {
  if (role == 0) {
    Rolled video = rolled(kStudentRole, first, count);
    MicroLoss out = student_loss(video);
    if (options_.reuse_rollouts) kept_ = Kept{first, std::move(video)};
    return out;
  }
  const Rolled in = for_critic(first, count);
  const at::Tensor losses = critic_objective_.losses(in.with, in.levels, in.noise), &x = in.made.x;
  const double all = static_cast<double>(options_.batch), share = static_cast<double>(count) / all;
  return {
      losses.sum() / all,
      {{"latent_mean", x.mean().item<double>() * share}, {kSquare, x.square().mean().item<double>() * share}},
      {}};
}

// The student's weights change in its own steps. A run that continues counts the exits of the steps before it, which
// are functions of the seed.
bool Matching::after_step(int64_t step, nlohmann::json& line) {
  const double mean = line.at("latent_mean"), square = line.at(kSquare);
  line.erase(kSquare);
  line["latent_std"] = std::sqrt(std::max(square - mean * mean, 0.0));
  for (; counted_ < step; ++counted_)
    if (trained_->is_due(counted_)) ++exits_.at(static_cast<size_t>(exit("student", counted_)));
  line["exits"] = exits_;
  if (options_.video_windows > 1) line["window"] = rollouts_by_.at(kCriticRole).window(step - 1) + 1;
  if (trained_->is_due(step - 1))
    for (auto& [role, rollouts] : rollouts_by_) rollouts.forget();
  return false;
}

// The student's forward comes last: its chain must not begin another pass before the backward.
MicroLoss Matching::student_loss(const Rolled& in) {
  const at::Tensor noisy = flow_.noisy(in.with.at("latent"), in.noise, in.levels),
                   fake = score(*critic_, critic_objective_, in.with, noisy, in.levels),
                   real = guided_score(in, noisy, in.levels);
  NamedTensors own = in.with;
  own["latent"] = on_device(in.made.x);
  const at::Tensor x = student_estimate(own, in.made.noisy, in.made.levels);
  // Takes the frames that the student learns, as [B, T, C, H, W].
  const auto by_frame = [T = x.size(2)](const at::Tensor& t) {
    return t.narrow(2, t.size(2) - T, T).transpose(1, 2);
  };
  const auto made =
      matching_.evaluate({{"x", by_frame(x)}, {"real", by_frame(real)}, {"fake", by_frame(fake)}});
  const double share = 1 / static_cast<double>(options_.batch);
  const double apart = by_frame(fake - real).abs().mean({1, 2, 3, 4}).sum().item<double>() * share;
  return {matching_.of_samples(made, x.size(0)).sum() * share, {{"score_distance", apart}}, {}};
}

}  // namespace kinora::core
