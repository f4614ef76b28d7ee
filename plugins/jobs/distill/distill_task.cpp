#include "plugins/jobs/distill/distill_task.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/torch/media/signals.hpp"
#include "core/torch/tensors/device.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "host/weights/safetensors.hpp"
#include "plugins/jobs/distill/shared_base.hpp"
#include "plugins/jobs/inference/encoders.hpp"
#include "plugins/jobs/training/training_checks.hpp"
#include "plugins/jobs/windows/no_text.hpp"

namespace kinora::core {
namespace {

const JobSpec& trained_by(const JobView& job) { return job.need_upstream("train"); }

// The weights from which the student starts are the base's, or those of the job that this one continues.
Part part_of_student(const JobView& job) {
  const JobSpec* before = distilled_before(job);
  return {
      shared_use(*trained_by(job).component("model")),
      before ? WeightsPaths{file_or_index(job.folder_of(*before) / "weights.safetensors")} : base_of(job)};
}

Options cache_options(const JobView& job, const FrameOptions& rule) {
  const auto& use = *job.spec().component("cache");
  return or_throw(Options::make(*job.open(use).spec, cache_of_frames(rule, use.options.values())));
}

// Away from which the teacher is guided, [L, D]; undefined: zeros. The encoder is gone before the networks are made.
at::Tensor no_text_for(const JobView& job, const DistillOptions& o, at::Device device) {
  if (o.negative.empty()) return no_text_of(job);
  return TextEncoder(job, job.need_upstream("encode"), device)(o.negative, "negative");
}

}  // namespace

TrainOptions options_of_student(const JobView& distill) {
  return JobView(distill.runtime(), distill.run(), trained_by(distill)).options<TrainOptions>();
}

WeightsPaths base_of(const JobView& distill) {
  if (auto own = weights_in(distill.spec().options, "weights"); !own.empty()) return own;
  if (const JobSpec* before = distilled_before(distill))
    return base_of(JobView(distill.runtime(), distill.run(), *before));
  return {file_or_index(distill.folder_of(trained_by(distill)) / "weights.safetensors")};
}

DistillTask::DistillTask(JobContext& context, const DistillOptions& o)
    : context_(context),
      options_(o),
      train_(options_of_student(context)),
      device_(device_of(o.device)),
      seed_(static_cast<uint64_t>(context.run().seed)),
      parallel_(context),
      data_(samples_of(context, {.held_out = train_.validation, .threads = o.threads}, device_, parallel_)),
      part_(part_of_student(context)),
      base_(base_of(context)),
      lora_(lora_of(o.lora, o.adapter)),
      model_(context.open(*part_.use)),
      flow_(context.open(*trained_by(context).component("loss")),
            trained_by(context).component("loss")->options),
      no_text_(no_text_for(context, o, device_)),
      sampler_(context.open_slot("sampler"), context.spec().component("sampler")->options),
      cache_options_(cache_options(context, train_)),
      cache_(context.open_slot("cache"), cache_options_),
      student_(made(*part_.use, training_rule(train_), student_links(), lora_, !lora_)),
      teacher_(teacher()),
      objective_(objective_of(*student_, *part_.use, training_rule(train_))),
      teacher_objective_(objective_of(*teacher_, teacher_use(), scores_rule())) {
  const JobSpec* before = distilled_before(context);
  std::filesystem::path adapter = o.adapter;
  if (lora_ && before) adapter = context.folder_of(*before) / "adapter";
  if (!adapter.empty()) student_->load_adapter(adapter);
}

std::vector<const kinora_link*> DistillTask::student_links() {
  auto out = parallel_.links();
  if (options_.method == "dmd") out.insert(out.end(), {detached_.get(), rollouts_.get()});
  if (options_.video_windows > 1) out.push_back(earlier_.get());
  return out;
}

std::vector<const kinora_link*> DistillTask::teacher_links() {
  auto out = parallel_.more_links();
  if (options_.method == "ode") out.push_back(rollouts_.get());
  return out;
}

const ComponentUse& DistillTask::teacher_use() const {
  const ComponentUse* own = context_.spec().component("teacher");
  return own ? *own : *part_.use;
}

std::unique_ptr<Model> DistillTask::teacher() {
  if (!context_.spec().component("teacher")) return another(teacher_links(), options_.teacher_weights, false);
  auto out = made(teacher_use(), scores_rule(), teacher_links(), {}, true);
  out->load(options_.teacher_weights);
  return out;
}

std::unique_ptr<Model> DistillTask::made(const ComponentUse& use, const Frames& rule,
                                         std::vector<const kinora_link*> links,
                                         std::optional<LoraOptions> lora, bool blank) const {
  return std::make_unique<Model>(context_.open(use), use.options,
                                 ChainOptions{.seed = seed_,
                                              .device = device_,
                                              .dtype = parallel_.parameter_dtype(),
                                              .frames = rule,
                                              .token_multiple = parallel_.token_multiple(),
                                              .lora = std::move(lora),
                                              .mesh = parallel_.mesh(),
                                              .blank = blank},
                                 std::move(links));
}

// An adapter of zeros leaves the base as it is. The base's weights are loaded with the student's.
std::unique_ptr<Model> DistillTask::another(std::vector<const kinora_link*> links, const WeightsPaths& own,
                                            bool trained) {
  if (!lora_) {
    auto out = made(*part_.use, scores_rule(), std::move(links), {}, true);
    out->load(own.empty() ? base_ : own);
    return out;
  }
  auto out = made(*part_.use, scores_rule(), std::move(links),
                  own.empty() ? lora_ : parse_lora(own.at(0).string()), !trained);
  share_base(*student_, *out);
  if (!own.empty()) out->load_adapter(own[0]);
  return out;
}

Objective DistillTask::objective_of(Model& network, const ComponentUse& use, const Frames& rule) {
  std::optional<double> clean;
  if (rule.streams == 2) clean = level_of(clean_sigma(flow_, train_.condition_sigma), flow_.mix());
  return {flow_,
          network,
          *context_.open(use).spec,
          parallel_.parameter_dtype(),
          parallel_.dtype(),
          device_,
          signals_of(use.options),
          0,
          clean,
          no_text_};
}

SelfForcing DistillTask::forcing_of(Model& network) {
  auto levels = sampler_.levels();
  levels.pop_back();  // 0
  const bool is_fresh = context_.spec().component("sampler")->id == kFreshNoise;
  return {network, cache_, *model_.spec, flow_,
          SelfForcing::How{.rule = train_,
                           .levels = std::move(levels),
                           .sampler = is_fresh ? nullptr : &sampler_,
                           .condition_sigma = train_.condition_sigma,
                           .stream = parallel_.dtype(),
                           .seed = seed_,
                           .device = device_,
                           .signals = signals_of(part_.use->options)}};
}

void DistillTask::run() {
  OptimizerOptions plain = options_;
  plain.weights = lora_ ? base_ : part_.weights;
  Trained::How how = how_of(plain);
  if (options_.method == "dmd") how.every = options_.every;
  Trained student(context_, *student_, parallel_, how);
  trained_ = &student;
  const auto other = critic(how);
  std::vector<Trained*> all{&student};
  if (other) all.push_back(other.get());
  Trainer trainer(context_, *this, all, parallel_, plain);
  trainer.run();
  trainer.use_average();
  trainer.save_weights();
  context_.summary.update(trainer.summary());
  context_.summary.update(data_.stream->summary());
}

DistillTask::Batch DistillTask::batch(const std::vector<LatentData::Item>& items) const {
  const auto count = static_cast<int64_t>(items.size());
  return {objective_.batch(items, at::zeros({count}, at::kBool)),
          objective_.batch(items, at::ones({count}, at::kBool))};
}

DistillTask::Batch DistillTask::drawn(int64_t first, int64_t count) const {
  std::vector<LatentData::Item> items;
  for (int64_t n = first; n < first + count; ++n) items.push_back(data_.stream->drawn(n));
  return batch(items);
}

at::Tensor DistillTask::score(Model& network, const Objective& objective, const NamedTensors& batch,
                              const at::Tensor& noisy, const at::Tensor& levels) {
  const at::NoGradGuard off;
  kinora_pass before = network.chain().pass(), pass = before;
  pass.struct_size = before.struct_size = sizeof pass;
  pass.no_grad = 1;
  pass.seed = seed_;
  pass.step = student_->chain().pass().step;  // on which a precision may depend
  pass.steps = student_->chain().pass().steps;
  network.chain().begin(pass);
  const at::Tensor out = noisy_estimate(network, objective, batch, noisy, levels);
  network.chain().begin(before);
  return out;
}

at::Tensor DistillTask::guided_score(const Batch& in, const at::Tensor& noisy, const at::Tensor& levels) {
  const at::Tensor with = score(*teacher_, teacher_objective_, in.with, noisy, levels);
  if (options_.guidance == 1 || !in.with.contains("text")) return with;
  const at::Tensor none = score(*teacher_, teacher_objective_, in.none, noisy, levels);
  return none + options_.guidance * (with - none);
}

at::Tensor DistillTask::student_estimate(const NamedTensors& batch, const at::Tensor& noisy,
                                         const at::Tensor& levels) {
  return noisy_estimate(*student_, objective_, batch, on_device(noisy), levels.to(device_));
}

}  // namespace kinora::core
