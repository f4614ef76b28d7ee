// kind = "train"
#include <ATen/ATen.h>

#include "core/base/log.hpp"
#include "core/torch/media/signals.hpp"
#include "core/torch/network/meter_link.hpp"
#include "core/torch/tensors/device.hpp"
#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/inference/frames.hpp"
#include "plugins/jobs/media/strip.hpp"
#include "plugins/jobs/inference/tensor_job.hpp"
#include "plugins/jobs/train/check_train.hpp"
#include "plugins/jobs/training/batch_ahead.hpp"
#include "plugins/jobs/training/error_bank.hpp"
#include "plugins/jobs/training/microbatches.hpp"
#include "plugins/jobs/training/objective.hpp"
#include "plugins/jobs/training/options/train_options.hpp"
#include "plugins/jobs/training/row.hpp"
#include "plugins/jobs/training/same_batches.hpp"
#include "plugins/jobs/training/sample_draws.hpp"
#include "plugins/jobs/training/sample_grid.hpp"
#include "plugins/jobs/training/shot_text_link.hpp"
#include "plugins/jobs/training/trainer.hpp"
#include "plugins/jobs/training/training_checks.hpp"
#include "plugins/jobs/training/validation.hpp"
#include "plugins/jobs/windows/no_text.hpp"
#include "plugins/jobs/windows/shared_samples.hpp"

namespace kinora::core {
namespace {

// A microbatch's data besides its tensors; also the keys of the random numbers.
constexpr const char *kSigma = "train.sigma", *kNoise = "train.noise";

SampleOptions sample_options(const TrainOptions& o) {
  const bool validates = o.validation_every > 0 || o.sample_every > 0;
  return {o.validation, validates ? o.validation_samples : 0, o.threads, o.are_buckets(), cut_of(o)};
}

class ModelTraining final : public TrainingTask {
 public:
  ModelTraining(JobContext& context, const TrainOptions& o)
      : context_(context),
        options_(o),
        device_(device_of(o.device)),
        seed_(static_cast<uint64_t>(context.run().seed)),
        parallel_(context),
        data_(samples_of(context, sample_options(o), device_, parallel_)),
        loss_(context.open_slot("loss"), context.spec().component("loss")->options),
        tokens_(o.teacher_forcing),
        shot_text_(o.shots),
        model_(context.open_slot("model")),
        network_(model_, context.spec().component("model")->options,
                 {.seed = seed_,
                  .device = device_,
                  .dtype = parallel_.parameter_dtype(),
                  .frames = rule_of(o, data_.stream->facts().shape),
                  .token_multiple = parallel_.token_multiple(),
                  .lora = lora_of(o),
                  .mesh = parallel_.mesh()},
                 links()),
        objective_(loss_, network_, *model_.spec, parallel_.parameter_dtype(), parallel_.dtype(), device_,
                   signals_of(context.spec().component("model")->options),
                   context.spec().component("model")->options.values().value("in_channels", int64_t{0}),
                   clean_level(o, loss_), no_text_of(context)),
        given_(o, loss_, seed_),
        levels_(o, loss_, seed_),
        batches_([this](int64_t first, int64_t count) { return made(first, count); }, device_,
                 o.prefetch ? cuda_library(device_) : nullptr) {
    const size_t sizes = data_.live ? data_.live->window_sizes() : 1;
    require_window_sizes(o, loss_, *model_.spec, sizes, parallel_.data_size());
    if (const auto how = recycling_of(o, loss_, sizes, parallel_.group("pp").size))
      errors_.emplace(*how, o.chunks(), seed_);
    warn_of_missing_rate();
    if (!o.adapter.empty()) network_.load_adapter(o.adapter);
    if (o.validation_every > 0 || o.sample_every > 0)
      validation_ =
          std::make_unique<Validation>(*data_.stream, objective_, network_, parallel_, options_, seed_);
    if (o.sample_every > 0) open_samples();
  }

  void run() {
    trained_.emplace(context_, network_, parallel_, how_of(options_));
    trainer_.emplace(context_, *this, std::vector<Trained*>{&*trained_}, parallel_, options_);
    trainer_->run();
    trainer_->use_average();
    trainer_->save_weights();
    context_.summary.update(trainer_->summary());
    context_.summary.update(data_.stream->summary());
    context_.summary.update(trainer_->facts);
    if (trainer_->facts.contains("efficiency")) say_efficiency(trainer_->facts["efficiency"]);
  }

 private:
  void begin_step(int64_t step) override {
    step_ = step;
    microbatches_.begin_step(step);
    if (!data_.shared) return;
    data_.shared->begin_step(step, [this](int64_t of) { return microbatches_.numbers_of_step(of); });
  }
  std::vector<int64_t> numbers(int64_t first, int64_t count) override {
    return microbatches_.numbers(first, count);
  }
  void prepare(int64_t first, int64_t count) override {
    if (!options_.prefetch || !device_.is_cuda()) return;
    if (!data_.shared || step_of(first) == step_) batches_.prepare(first, count);
  }
  TokenMeter::Count take_tokens() override { return tokens_.take(); }
  SamplesMade take_samples_made() override {
    SamplesMade out;
    if (data_.live) out.bytes_read = data_.live->take_bytes();
    return out;
  }
  NamedTensors state() const override { return errors_ ? errors_->state() : NamedTensors(); }
  void restore(NamedTensors state) override {
    if (errors_) errors_->restore(state);
  }
  LostSamples* lost() override { return data_.live ? &data_.live->lost() : nullptr; }
  json loading() const override { return data_.live ? data_.live->loading() : json(); }

  // The level of clean frames in the units of the loss; nothing without teacher forcing.
  static std::optional<double> clean_level(const TrainOptions& o, const LossInstance& loss) {
    LevelDraw::require(o, loss);
    if (!o.teacher_forcing) return std::nullopt;
    return level_of(clean_sigma(loss, o.condition_sigma), loss.mix());
  }

  std::vector<const kinora_link*> links() const {
    auto out = parallel_.links();
    out.push_back(tokens_.get());
    if (options_.shots > 1) out.push_back(shot_text_.get());
    return out;
  }

  void say_efficiency(double mean) const {
    log_info("{}: a microbatch ({}) has {:.1f} % of the tokens of the largest one of its step, on average",
             context_.spec().name, options_.batches, 100 * mean);
  }

  // A model that scales its positions by the rate (base_fps of model/cosmos) takes base_fps for clips without one.
  void warn_of_missing_rate() const {
    const double base = context_.spec().component("model")->options.values().value("base_fps", 0.0);
    const JobSpec& encode = context_.need_upstream("encode");
    const json kept = encode.options.value("signals", json::array());
    if (base > 0 && std::find(kept.begin(), kept.end(), "fps") == kept.end())
      log_warn(
          "{}: the model scales its positions by the frame rate, and the job {} keeps none, so every clip "
          "counts as one "
          "of {} frames a second; add signals = [\"fps\"] there",
          context_.spec().name, encode.name, base);
  }

  int64_t step_of(int64_t sample) const { return sample / options_.batch; }
  // True for the first step of every checkpoint interval, so that a fault from the start is found at once.
  bool compares(int64_t step) const {
    return same_batches_.is_needed() && step % options_.checkpoint_every == 0;
  }

  NamedTensors made(int64_t first, int64_t count) {
    NamedTensors batch = drawn(first, count);
    if (compares(step_of(first))) same_batches_.add(first, batch);
    return batch;
  }

  // Sample n of all samples ever drawn: its latent, noise, noise level, number of given frames and whether it
  // keeps its text depend only on (seed, n). They are therefore the same for any number of ranks, any split
  // into microbatches and after a resume. On the CPU.
  NamedTensors drawn(int64_t first, int64_t count) {
    if (microbatches_.are_divided()) return drawn_of_sizes(microbatches_.numbers(first, count));
    std::vector<LatentData::Item> items;
    for (int64_t n = first; n < first + count; ++n) items.push_back(data_.stream->drawn(n));
    NamedTensors batch = objective_.cpu_batch(items, drop_text(first, count));
    if (!objective_.noisy()) return batch;
    const auto latent = batch.find("latent");
    batch[kSigma] = levels_(first, count, latent == batch.end() ? 1 : latent->second.size(2), kSigma);
    if (latent != batch.end()) batch[kNoise] = sample_noise(latent->second, seed_, first, kNoise);
    return batch;
  }

  // Samples as a packed row or of one size, each as it would be alone.
  NamedTensors drawn_of_sizes(const std::vector<int64_t>& numbers) {
    const bool as_row = microbatches_.are_rows();
    std::vector<LatentData::Item> items;
    std::vector<at::Tensor> without_text, levels, noises;
    for (const int64_t n : numbers) {
      items.push_back(data_.stream->drawn(n));
      without_text.push_back(drop_text(n, 1));
    }
    NamedTensors batch = objective_.cpu_batch(items, at::cat(without_text), as_row);
    if (!objective_.noisy()) return batch;
    const at::Tensor& all = batch.at("latent");
    for (const auto& latent : as_row ? videos_of(all, batch.at("sizes")) : all.split(1)) {
      const int64_t n = numbers[levels.size()];
      levels.push_back(levels_(n, 1, latent.size(2), kSigma));
      noises.push_back(sample_noise(latent, seed_, n, kNoise));
    }
    batch[kSigma] = at::cat(levels);
    batch[kNoise] = as_row ? row_of(noises) : at::cat(noises);
    return batch;
  }

  at::Tensor drop_text(int64_t first, int64_t count) const {
    return sample_uniform({count}, seed_, first, "train.text-dropout") < options_.text_dropout;
  }

  MicroLoss micro_loss(size_t, int64_t first, int64_t count) override {
    NamedTensors batch = batches_.take(first, count);
    const auto numbers = microbatches_.numbers(first, count);
    const int64_t stride = parallel_.data_size() * count, next = first + stride;
    if (data_.live && !data_.shared && next < options_.steps * options_.batch)
      data_.live->prepare(microbatches_.numbers(next, count), stride);
    const auto apart = [&](const char* name) {
      const auto it = batch.extract(name);
      return it.empty() ? at::Tensor() : it.mapped();
    };
    const at::Tensor sigma = apart(kSigma), noise = apart(kNoise);
    const Given given = microbatches_.are_divided() ? given_(numbers) : given_(first, count);
    std::optional<ErrorBank::Injected> injected;
    if (errors_) injected = errors_->injected(batch.at("latent"), noise, sigma, numbers, step_);
    const at::Tensor losses = objective_.losses(batch, sigma, injected ? injected->noise : noise, given,
                                                injected ? &injected->streams : nullptr);
    if (injected) errors_->note(batch.at("latent"), *injected, numbers, step_);
    MicroLoss out{losses.sum() / static_cast<double>(options_.batch), {}, {}};
    for (const int64_t frames : given.frames)
      out.loss_share -= static_cast<double>(frames) / static_cast<double>(batch.at("latent").size(2)) /
                        static_cast<double>(given.frames.size());
    if (sigma.defined()) out.by_sigma.add(sigma, losses, loss_.mix());
    return out;
  }

  // Counted for the first training sample, for the first row, or for a sample of each size of the first step; other
  // caption lengths are not worth another count.
  double flops_per_sample() override {
    const int64_t count = options_.batch / options_.accumulate / parallel_.data_size();
    std::string why;
    double flops = 0;
    if (!microbatches_.are_divided()) {
      flops = flops_of({data_.stream->example()}, why);
    } else if (microbatches_.are_rows()) {
      const auto items = gathered(microbatches_.numbers(0, count));
      flops = flops_of(items, why) / static_cast<double>(items.size());
    } else {
      for (const auto& [n, share] : microbatches_.examples()) flops += share * flops_of(gathered({n}), why);
    }
    if (flops == 0)
      log_warn("{}: flops_per_second and mfu are not logged: {}", context_.spec().name,
               why.empty() ? "the model does no matrix product through its context" : why);
    return flops;
  }

  std::vector<LatentData::Item> gathered(const std::vector<int64_t>& numbers) {
    if (data_.shared) data_.shared->gather(numbers);
    std::vector<LatentData::Item> out;
    for (const int64_t n : numbers) out.push_back(data_.stream->drawn(n));
    return out;
  }

  double flops_of(const std::vector<LatentData::Item>& items, std::string& why) {
    const bool as_row = microbatches_.are_rows();
    const auto count = static_cast<int64_t>(items.size());
    const auto batch = objective_.batch(items, at::zeros({count}, at::kBool), as_row);
    at::Tensor level, noise;
    if (objective_.noisy()) level = loss_.level(at::full({count}, 0.5, at::kDouble));
    if (objective_.noisy() && batch.count("latent")) noise = at::zeros_like(batch.at("latent"));
    return training_flops(model_, context_.spec().component("model")->options,
                          objective_.inputs(batch, level, noise, as_row ? Given() : given_(0, 1)),
                          network_.chain().lora() != nullptr, why);
  }

  // Runs validation and draws pictures when they are due; on every rank.
  bool after_step(int64_t step, json& line) override {
    if (compares(step - 1)) same_batches_.compare((step - 1) * options_.batch, step * options_.batch, step);
    if (data_.live) line["data_wait"] = data_.live->take_wait();
    if (errors_) {
      errors_->store(Exchange(parallel_.group("dp+fsdp"), device_));
      line["stored_errors"] = errors_->size();
    }
    if (microbatches_.are_divided()) {
      json& mean = trainer_->facts["efficiency"];  // of all steps
      const double one = microbatches_.efficiency(step - 1),
                   before = mean.is_null() ? 0.0 : mean.get<double>();
      line["efficiency"] = one;
      mean = before + (one - before) / static_cast<double>(step);
    }
    const auto due = [&](int64_t every) {
      return every > 0 && (step % every == 0 || step == options_.steps);
    };
    if (due(options_.validation_every)) {
      trainer_->with_average([&] { line.update(validation_->losses()); });
      trainer_->facts["validation_loss"] = line.at("validation_loss");
    }
    if (samples_ && due(options_.sample_every))
      trainer_->with_average([&] {
        if (const auto picture = samples_->draw(step)) trainer_->picture(step, "samples", *picture);
      });
    return line.contains("validation_loss");
  }

  void open_samples() {
    const auto& options = context_.spec().component("model")->options;
    GuidedModel guided(experts_, *model_.spec, signals_of(options), loss_, parallel_.dtype(), seed_, device_);
    if (options_.condition_timestep == "shared") guided.share_timestep();
    samples_ =
        std::make_unique<SampleGrid>(context_, options_, *validation_, objective_, data_.stream->facts(),
                                     network_, std::move(guided), parallel_.rank() == 0);
  }

  JobContext& context_;
  TrainOptions options_;
  at::Device device_;
  uint64_t seed_;
  Parallelism parallel_;
  TrainingSamples data_;
  LossInstance loss_;
  TokenMeter tokens_;
  ShotTextLink shot_text_;
  Component model_;
  Model network_;
  Experts experts_{network_};
  Objective objective_;
  GivenDraw given_;
  LevelDraw levels_;
  BatchAhead batches_;
  std::unique_ptr<Validation> validation_;
  std::unique_ptr<SampleGrid> samples_;
  int64_t step_ = 0;  // the current one
  Microbatches microbatches_{data_.live, options_, parallel_};
  SameBatches same_batches_{parallel_};
  std::optional<ErrorBank> errors_;  // with error_recycling
  std::optional<Trained> trained_;   // while the job runs
  std::optional<Trainer> trainer_;
};

}  // namespace

class Train final : public TensorJob {
 public:
  using Options = TrainOptions;
  static JobParts parts();
  std::vector<std::string> grows_by() const override { return {"steps"}; }

 private:
  void work(JobContext&) const override;
  void examine(JobCheck& check) const override { check_train(check); }
};

JobParts Train::parts() {
  return {
      .slots = {{.name = "model",
                 .kind = "model",
                 .required = true,
                 .help = "network to train",
                 .weights = "weights"},
                {.name = "loss", .kind = "loss", .use = "edm", .required = true, .help = "loss to train on"},
                {.name = "sampler",
                 .kind = "sampler",
                 .help = "sampler that draws the samples of sample_every; by default edm-heun or flow-euler, "
                         "depending on the loss",
                 .how_only = true},
                kOptimizerSlot,
                kParallelSlot,
                kPrecisionSlot,
                kCollectiveSlot},
      .reads = {"encode"},
      .tensors = true};
}

void Train::work(JobContext& context) const {
  const auto options = context.options<TrainOptions>();
  require_shots(options, context.spec().component("model")->options);
  use_threads(options.threads);
  ModelTraining(context, options).run();
}

}  // namespace kinora::core

using kinora::core::Train;
KINORA_JOB(Train)
KINORA_PLUGIN(Train, PlansOfTrain)
