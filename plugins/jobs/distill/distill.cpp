// kind = "distill": distribution matching distillation (DMD, arXiv 2311.18828 and 2405.14867) on the student's own
// rollouts (Self-Forcing, arXiv 2506.08009), for a model that makes a video chunk by chunk.
//
// Student, teacher (the real score, frozen) and critic (the fake score) are networks of one architecture. The scores
// are those of teacher forcing: each noisy chunk after the clean chunks of the rollout. (Self-Forcing's are of a
// bidirectional network, LongLive 2.0's of a causal one without the clean chunks.)
#include <optional>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/torch/tensors/device.hpp"
#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/distill/check_distill.hpp"
#include "plugins/jobs/distill/detach_clean_link.hpp"
#include "plugins/jobs/distill/distill_options.hpp"
#include "plugins/jobs/distill/rollout_cache_link.hpp"
#include "plugins/jobs/distill/self_forcing.hpp"
#include "plugins/jobs/inference/media/strip.hpp"
#include "plugins/jobs/inference/tensor_job.hpp"
#include "plugins/jobs/training/trainer.hpp"
#include "plugins/jobs/windows/no_text.hpp"
#include "plugins/jobs/windows/samples.hpp"

namespace kinora::core {
namespace {

constexpr size_t kStudent = 0;

const JobSpec& trained_by(const JobView& job) { return job.need_upstream("train"); }

// The levels that the sampler visits, without the last, 0.
std::vector<double> levels_of(const JobView& job) {
  auto out = SamplerInstance(job.open_slot("sampler"), job.spec().component("sampler")->options).levels();
  out.pop_back();
  return out;
}

class Distillation final : public TrainingTask {
 public:
  Distillation(JobContext& context, const DistillOptions& o)
      : context_(context),
        options_(o),
        train_(options_of_student(context)),
        device_(device_of(o.device)),
        seed_(static_cast<uint64_t>(context.run().seed)),
        parallel_(context),
        data_(samples_of(context, {.held_out = train_.validation, .threads = o.threads}, device_, parallel_)),
        part_(part_of(context, "model", "weights", "train")),
        model_(context.open(*part_.use)),
        flow_(context.open(*trained_by(context).component("loss")),
              trained_by(context).component("loss")->options),
        matching_(context.open_slot("loss"), context.spec().component("loss")->options),
        cache_options_(or_throw(cache_options(context, train_))),
        cache_(context.open_slot("cache"), cache_options_),
        student_(model_, part_.use->options, chain_options(), student_links()),
        teacher_(model_, part_.use->options, chain_options(), parallel_.more_links()),
        critic_(model_, part_.use->options, chain_options(), parallel_.more_links()),
        objective_(flow_, critic_, *model_.spec, parallel_.parameter_dtype(), parallel_.dtype(), device_,
                   signals_of(part_.use->options), 0,
                   level_of(clean_sigma(flow_, train_.condition_sigma), flow_.mix()), no_text_of(context)),
        forcing_(student_, cache_, *model_.spec, flow_,
                 {.rule = train_,
                  .levels = levels_of(context),
                  .condition_sigma = train_.condition_sigma,
                  .stream = parallel_.dtype(),
                  .seed = seed_,
                  .device = device_,
                  .signals = signals_of(part_.use->options)}) {}

  void run() {
    const auto or_students = [&](const WeightsPaths& own) { return own.empty() ? part_.weights : own; };
    teacher_.load(or_students(options_.teacher_weights));
    critic_.load(or_students(options_.critic_weights));  // a checkpoint's follow
    OptimizerOptions plain = options_;
    plain.weights = part_.weights;
    Trained::How how = how_of(plain);
    how.every = options_.every;
    Trained student(context_, student_, parallel_, how),
        critic(context_, critic_, parallel_,
               {.name = "critic",
                .optimizer = "critic_optimizer",
                .learning_rate = [rate = options_.critic_learning_rate](int64_t) { return rate; },
                .decay = how.decay,
                .clip_norm = options_.clip_norm});
    Trainer trainer(context_, *this, {&student, &critic}, parallel_, plain);
    trainer.run();
    trainer.use_average();
    trainer.save_weights();
    context_.summary.update(trainer.summary());
    context_.summary.update(data_.stream->summary());
  }

 private:
  // The inputs of a microbatch with and without text, whose latent is the student's own video.
  struct Rolled {
    NamedTensors with, none;
    SelfForced made;
    at::Tensor levels, noise;  // of the scores: [B, T], and of the latent's shape
  };
  // The student's video of a microbatch, for the critic.
  struct Kept {
    int64_t first;
    Rolled video;
  };

  void begin_step(int64_t step) override {
    step_ = step;
    kept_.reset();
  }

  static Result<Options> cache_options(const JobView& job, const FrameOptions& rule) {
    const auto& use = *job.spec().component("cache");
    return Options::make(*job.open(use).spec, cache_of_frames(rule, use.options.values()));
  }
  ChainOptions chain_options() const {
    return {.seed = seed_,
            .device = device_,
            .dtype = parallel_.parameter_dtype(),
            .frames = training_rule(train_),
            .token_multiple = parallel_.token_multiple(),
            .mesh = parallel_.mesh(),
            .blank = true};
  }
  std::vector<const kinora_link*> student_links() {
    auto out = parallel_.links();
    out.insert(out.end(), {detached_.get(), rollouts_.get()});
    return out;
  }

  // The same for all chunks, samples and ranks.
  std::vector<int64_t> exits(const std::string& role, int64_t frames) const {
    const double u = sample_uniform({1}, seed_, step_, "distill.exit." + role).item<double>();
    const auto exit = static_cast<int64_t>(u * static_cast<double>(forcing_.steps()));
    return std::vector<int64_t>(static_cast<size_t>(forcing_.chunks(frames)), exit);
  }

  // One level a sample (Self-Forcing, model/dmd.py), [count, frames] float64.
  at::Tensor score_levels(const std::string& role, int64_t first, int64_t count, int64_t frames) const {
    const at::Tensor u = sample_uniform({count}, seed_, first, "distill.level." + role);
    const at::Tensor levels = options_.shift * u / (1 + (options_.shift - 1) * u);
    return levels.clamp(options_.level_min, options_.level_max)
        .unsqueeze(1)
        .expand({count, frames})
        .contiguous();
  }

  Rolled rolled(const std::string& role, int64_t first, int64_t count) {
    std::vector<LatentData::Item> items;
    for (int64_t n = first; n < first + count; ++n) items.push_back(data_.stream->drawn(n));
    Rolled out{objective_.batch(items, at::zeros({count}, at::kBool)),
               objective_.batch(items, at::ones({count}, at::kBool)),
               {},
               {},
               {}};
    const auto shape = out.with.at("latent").sizes().vec();
    out.made = forcing_.roll_out(out.with, shape, exits(role, shape[2]), first, "distill.rollout." + role);
    const at::Tensor x = out.made.x.to(device_, parallel_.parameter_dtype());
    out.with["latent"] = out.none["latent"] = x;
    draw_noise(out, role, first);
    return out;
  }

  void draw_noise(Rolled& of, const std::string& role, int64_t first) const {
    const at::Tensor& x = of.with.at("latent");
    of.levels = score_levels(role, first, x.size(0), x.size(2)).to(device_);
    of.noise = sample_noise(x, seed_, first, "distill.noise." + role);
  }

  // The critic's inputs: the student's video of this microbatch with other noise, if it is kept, or an own one.
  Rolled for_critic(int64_t first, int64_t count) {
    if (!kept_ || kept_->first != first) return rolled("critic", first, count);
    Rolled out = std::move(kept_->video);
    kept_.reset();
    draw_noise(out, "critic", first);
    return out;
  }

  // A network's estimate of the clean sample, without gradients. Its chain then begins its pass of before again.
  at::Tensor score(Model& network, const NamedTensors& batch, const at::Tensor& noisy,
                   const at::Tensor& levels) {
    const at::NoGradGuard off;
    kinora_pass before = network.chain().pass(), pass = before;
    pass.struct_size = before.struct_size = sizeof pass;
    pass.no_grad = 1;
    pass.seed = seed_;
    pass.step = student_.chain().pass().step;  // on which a precision may depend
    pass.steps = student_.chain().pass().steps;
    network.chain().begin(pass);
    const at::Tensor out = two_stream_estimate(network, objective_, batch, noisy, levels);
    network.chain().begin(before);
    return out;
  }

  MicroLoss micro_loss(size_t role, int64_t first, int64_t count) override {
    if (role == kStudent) {
      Rolled video = rolled("student", first, count);
      MicroLoss out = student_loss(video);
      if (options_.reuse_rollouts) kept_ = Kept{first, std::move(video)};
      return out;
    }
    const Rolled in = for_critic(first, count);
    const at::Tensor losses = objective_.losses(in.with, in.levels, in.noise);
    return {losses.sum() / static_cast<double>(options_.batch), {}, {}};
  }

  // The student's forward comes last: its chain must not begin another pass before the backward.
  MicroLoss student_loss(const Rolled& in) {
    const at::Tensor noisy = flow_.noisy(in.with.at("latent"), in.noise, in.levels),
                     fake = score(critic_, in.with, noisy, in.levels);
    at::Tensor real = score(teacher_, in.with, noisy, in.levels);
    if (options_.guidance != 1 && in.with.contains("text")) {
      const at::Tensor none = score(teacher_, in.none, noisy, in.levels);
      real = none + options_.guidance * (real - none);
    }
    const auto on_device = [&](const at::Tensor& t) { return t.to(device_, parallel_.parameter_dtype()); };
    const at::Tensor x = two_stream_estimate(student_, objective_, in.with, on_device(in.made.noisy),
                                             in.made.levels.to(device_));
    const auto by_frame = [](const at::Tensor& t) { return t.transpose(1, 2); };  // [B, T, C, H, W]
    const auto made =
        matching_.evaluate({{"x", by_frame(x)}, {"real", by_frame(real)}, {"fake", by_frame(fake)}});
    const double share = 1 / static_cast<double>(options_.batch);
    const double apart = (fake - real).abs().mean({1, 2, 3, 4}).sum().item<double>() * share;
    return {matching_.of_samples(made, x.size(0)).sum() * share, {{"score_distance", apart}}, {}};
  }

  JobContext& context_;
  const DistillOptions options_;
  const TrainOptions train_;  // of the student's training
  at::Device device_;
  uint64_t seed_;
  Parallelism parallel_;
  TrainingSamples data_;
  Part part_;  // the student's, with the weights from which all three start
  Component model_;
  LossInstance flow_, matching_;
  Options cache_options_;
  CacheInstance cache_;
  DetachCleanLink detached_;
  RolloutCacheLink rollouts_{cache_.link()};
  Model student_, teacher_, critic_;
  Objective objective_;  // the critic's; its inputs are those of all three
  SelfForcing forcing_;
  int64_t step_ = 0;          // the current one
  std::optional<Kept> kept_;  // between the student's and the critic's turn
};

}  // namespace

class Distill final : public TensorJob {
 public:
  using Options = DistillOptions;
  static JobParts parts();
  std::vector<std::string> grows_by() const override { return {"steps"}; }

 private:
  void work(JobContext&) const override;
  void examine(JobCheck& check) const override { check_distill(check); }
};

JobParts Distill::parts() {
  return {.slots = {{.name = "loss",
                     .kind = "loss",
                     .use = "dmd",
                     .required = true,
                     .help = "loss of the student, which compares the scores of teacher and critic"},
                    {.name = "sampler",
                     .kind = "sampler",
                     .use = "flow-renoise",
                     .required = true,
                     .help = "few-step sampler whose levels the student learns"},
                    {.name = "cache",
                     .kind = "cache",
                     .use = "kv",
                     .required = true,
                     .help = "cache of the keys and values of earlier chunks in rollouts"},
                    kOptimizerSlot,
                    {.name = "critic_optimizer",
                     .kind = "optimizer",
                     .use = "adamw",
                     .required = true,
                     .help = "change of the critic's weights by their gradients"},
                    kParallelSlot,
                    kPrecisionSlot,
                    kCollectiveSlot},
          .reads = {"encode", "train"},
          .tensors = true};
}

void Distill::work(JobContext& context) const {
  const auto options = context.options<DistillOptions>();
  use_threads(options.threads);
  Distillation(context, options).run();
}

}  // namespace kinora::core

using kinora::core::Distill;
KINORA_JOB(Distill)
KINORA_PLUGIN(Distill)
