// kind = "train"
#include <ATen/ATen.h>

#include "core/jobs/training.hpp"
#include "core/torch/clips.hpp"
#include "core/torch/instances.hpp"
#include "core/torch/jobs/jobs.hpp"
#include "core/torch/latents.hpp"
#include "core/torch/noise.hpp"
#include "core/torch/trainer.hpp"

namespace kinora::core {
namespace {

class ModelTraining {
 public:
  ModelTraining(JobContext& context, const TrainOptions& o)
      : context_(context),
        options_(o),
        seed_(static_cast<uint64_t>(context.run().seed)),
        data_(context.folder_of(context.need_upstream("encode"))),
        loss_(context.open_slot("loss"), context.spec().component("loss")->options),
        parallel_(context),
        network_(context.open_slot("model"), context.spec().component("model")->options,
                 {.seed = seed_, .dtype = parallel_.parameter_dtype()}, parallel_.links()) {}

  void run() {
    Trainer trainer(context_, network_, parallel_, options_);
    trainer.run([&](int64_t first, int64_t count) { return micro_loss(first, count); });
    trainer.use_average();
    trainer.save_weights();
    context_.summary.update({{"steps", options_.steps},
                             {"loss", trainer.last_loss()},
                             {"skipped", trainer.skipped()},
                             {"parameters", network_.numel()},
                             {"samples", data_.size()},
                             {"seconds_per_step", trainer.seconds_per_step()}});
  }

 private:
  // Sample n of all that are ever drawn: which latent, its noise, its level and whether it keeps its text
  // depend on (seed, n) only, so they are the same at any number of ranks, any split into microbatches and
  // after a resume.
  MicroLoss micro_loss(int64_t first, int64_t count) {
    std::vector<at::Tensor> latents, texts;
    const at::Tensor drop =
        sample_uniform({count}, seed_, first, "train.text-dropout") < options_.text_dropout;
    for (int64_t i = 0; i < count; ++i) {
      auto item = data_.item(shuffled(first + i, data_.size(), seed_));
      latents.push_back(item.latent);
      texts.push_back(drop[i].item<bool>() ? at::zeros_like(item.text) : item.text);
    }
    const at::Tensor latent = at::stack(latents).to(parallel_.parameter_dtype());
    const TextBatch text = batch_text(texts);
    const at::Tensor sigma = loss_.level(sample_uniform({count}, seed_, first, "train.sigma"));
    const at::Tensor noise = sample_noise(latent, seed_, first, "train.noise");
    const auto in = loss_.input(loss_.noisy(latent, noise, sigma), sigma);
    const at::Tensor output = network_
                                  .forward({{"latent", in.latent.to(parallel_.dtype())},
                                            {"timestep", in.timestep},
                                            {"text", text.text},
                                            {"text_mask", text.mask}})
                                  .at(0);
    const auto result =
        loss_.evaluate({{"latent", latent}, {"noise", noise}, {"sigma", sigma}, {"prediction", output}});
    return {loss_.of_samples(result, count).sum() / static_cast<double>(options_.batch), {}};
  }

  JobContext& context_;
  TrainOptions options_;
  uint64_t seed_;
  LatentData data_;
  LossInstance loss_;
  Parallelism parallel_;
  Network network_;
};

}  // namespace

void run_train(JobContext& context) {
  const auto options = context.options<TrainOptions>();
  use_threads(options.threads);
  ModelTraining(context, options).run();
}

}  // namespace kinora::core
