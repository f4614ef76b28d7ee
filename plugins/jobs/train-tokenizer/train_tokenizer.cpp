// kind = "train-tokenizer"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "core/base/log.hpp"
#include "core/base/regular_file.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/contents.hpp"
#include "core/torch/media/streaming.hpp"
#include "core/torch/tensors/device.hpp"
#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/partial_init.hpp"
#include "core/torch/weights/published.hpp"
#include "host/weights/weights.hpp"
#include "plugins/jobs/inference/tensor_job.hpp"
#include "plugins/jobs/media/strip.hpp"
#include "plugins/jobs/train-tokenizer/check_train_tokenizer.hpp"
#include "plugins/jobs/train-tokenizer/reconstruction_scores.hpp"
#include "plugins/jobs/train-tokenizer/tokenizer_clips.hpp"
#include "plugins/jobs/train-tokenizer/tokenizer_critic.hpp"
#include "plugins/jobs/train-tokenizer/tokenizer_objective.hpp"
#include "plugins/jobs/train-tokenizer/train_tokenizer_options.hpp"
#include "plugins/jobs/train-tokenizer/video_features.hpp"
#include "plugins/jobs/training/trainer.hpp"
#include "plugins/jobs/training/training_checks.hpp"
#include "plugins/jobs/training/validation.hpp"

namespace kinora::core {
namespace {

constexpr const char* kTable = "weights.txt";
// Clips that are evaluated without a feature model; and, of a table of data, with one.
constexpr size_t kFew = 8, kMostOfFeatures = 2048;

// Loads safetensors or TorchScript archives under any layout of the job's tokenizer. partial: tensors that do
// not fit are initialised from the run's seed, and a table of all tensors is logged and, if `writes`, stored
// as weights.txt in the job's folder.
void start_from(JobContext& context, Tokenizer& tokenizer, const WeightsPaths& weights, bool partial,
                bool writes) {
  require_as_listed(weights, *context.open_slot("tokenizer").spec, kept_digests(context.run().out));
  if (!partial) return tokenizer.load(weights);
  auto& chain = tokenizer.chain();
  const PublishedWeights file(weights, context.open_slot("tokenizer"), chain.parameters());
  file.log_notes();
  const PartialReport report =
      load_partially(chain.parameters(), chain.leaves(), file.names(), file.find(),
                     {.seed = static_cast<uint64_t>(context.run().seed), .name_in_file = {}});
  if (writes) or_throw(write_file_atomically(context.folder() / kTable, report.text() + "\n"));
  log_info("{}: of {}: {}", context.spec().name, weights.back().string(), report.text());
}

// The first line of weights.txt: "12 taken, 1 resized, 2 new, 0 unused". Empty without the file.
std::string start_counts(const JobContext& context) {
  const auto text = read_regular_file(context.folder() / kTable);
  return text ? text->substr(0, text->find('\n')) : "";
}

// The samples of a microbatch are all videos or all images, decided by the seed and the global number of the
// microbatch's first sample, never by the rank that computes it.
bool of_images(int64_t first, const TrainTokenizerOptions& o, uint64_t seed) {
  const int64_t size = o.batch / o.accumulate;
  return sample_uniform({1}, seed, first - first % size, "tokenizer.image").item<double>() < o.image_share;
}

class TokenizerTraining final : public TrainingTask {
 public:
  TokenizerTraining(JobContext& context, const TrainTokenizerOptions& o)
      : context_(context),
        options_(o),
        device_(device_of(o.device)),
        seed_(static_cast<uint64_t>(context.run().seed)),
        clips_(context.spec().data ? live_clips(context, o, has_features() ? kMostOfFeatures : kFew)
                                   : stored_clips(context, o)),
        parallel_(context),
        network_(context.open_slot("tokenizer"), context.spec().component("tokenizer")->options,
                 {.seed = seed_,
                  .device = device_,
                  .dtype = parallel_.parameter_dtype(),
                  .mesh = parallel_.mesh()},
                 parallel_.links()),
        objective_(context, network_, o),
        scores_(context, has_features()) {
    if (has_features()) features_.emplace(context);
    if (context.spec().component("critic")) critic_.emplace(context, network_, parallel_, o, device_);
  }

  void run() {
    OptimizerOptions plain = options_;
    if (!latest_checkpoint(context_.folder() / "checkpoints")) start();
    plain.weights.clear();
    Trained trained(context_, network_, parallel_, how_of(plain));
    std::vector<Trained*> networks{&trained};
    if (critic_) networks.push_back(&critic_->trained());
    Trainer trainer(context_, *this, networks, parallel_, plain);
    trainer.run();
    trainer.use_average();
    trainer.save_weights();
    const json quality = evaluate();
    context_.summary.update(quality);  // a score's number does not replace one of the job
    context_.summary.update(trainer.summary());
    context_.summary.update(clips_->summary());
    if (options_.partial) context_.summary["weights"] = start_counts(context_);
  }

 private:
  bool has_features() const {
    return context_.spec().component("features") || !options_.features_weights.empty();
  }

  void start() {
    if (!options_.weights.empty())
      start_from(context_, network_, options_.weights, options_.partial, parallel_.rank() == 0);
    if (options_.start == "principal") network_.fit(starting_crops());
    clips_->take_wait();  // no step has waited yet
  }

  // The first samples, which are the same on every rank: up to 64, within a quarter of the memory.
  at::Tensor starting_crops() {
    const int64_t bytes = 12 * options_.frames * options_.height * options_.width,
                  count = std::clamp<int64_t>(options_.memory / 4 / bytes, 1, 64);
    clips_->prepare(0, count, count);
    std::vector<at::Tensor> crops;
    for (int64_t n = 0; n < count; ++n) crops.push_back(clips_->drawn(n, options_.frames));
    return at::cat(crops);
  }

  bool after_step(int64_t, json& line) override {
    if (const auto wait = clips_->take_wait()) line["data_wait"] = *wait;
    return false;
  }
  SamplesMade take_samples_made() override { return {.encoded_frames = std::exchange(encoded_, 0)}; }
  LostSamples* lost() override { return clips_->lost(); }
  json loading() const override { return clips_->loading(); }

  MicroLoss micro_loss(size_t role, int64_t first, int64_t count) override {
    const double share = static_cast<double>(count) / static_cast<double>(options_.batch);
    if (role > 0) return {critic_->loss(share), {}, {}};
    const int64_t length = of_images(first, options_, seed_) ? 1 : options_.frames;
    std::vector<at::Tensor> crops;
    for (int64_t n = first; n < first + count; ++n) crops.push_back(clips_->drawn(n, length));
    const int64_t stride = parallel_.data_size() * count, next = first + stride;
    if (next < options_.steps * options_.batch) clips_->prepare(next, count, stride);
    const at::Tensor video = at::cat(crops).to(device_, parallel_.parameter_dtype());
    encoded_ += count * length;
    auto terms = objective_(video, first, share);
    if (critic_ && critic_->trained().is_due(first / options_.batch))
      terms.all =
          terms.all + critic_->adversarial(video, terms.made, terms.reconstruction, share, terms.figures);
    return {terms.all, terms.figures, {}};
  }

  // Reconstructs a window of a few clips, held-out ones if there are any, or of all of them if there is a
  // feature model; writes pictures of the first and returns the numbers of the scores. The clips are divided
  // among the data-parallel ranks.
  json evaluate() {
    const at::NoGradGuard off;
    std::filesystem::create_directories(context_.folder() / "samples");
    const size_t all = clips_->evaluated_size(), few = std::min(all, kFew), n = features_ ? all : few,
                 ranks = static_cast<size_t>(parallel_.data_size()), share = (n + ranks - 1) / ranks,
                 first = static_cast<size_t>(parallel_.data_rank()) * share;
    std::vector<double> perceptual(few);
    // Every rank does equally many reconstructions, since ranks that share a model's parameters meet in each.
    for (size_t i = first; i < first + share; ++i) {
      const at::Tensor video = clips_->evaluated(std::min(i, n - 1)).to(device_, parallel_.parameter_dtype());
      const at::Tensor made = objective_.reconstruct(video);
      if (i >= n) continue;
      NamedTensors compared{{"prediction", made}, {"target", video}};
      if (i < few) {
        scores_.update(/*of_features=*/false, compared);
        perceptual[i] = objective_.perceptual(made, video).value_or(0);
      }
      if (features_) {
        compared["real"] = (*features_)(video.cpu());
        compared["made"] = (*features_)(made.cpu());
        scores_.update(/*of_features=*/true, compared);
      }
      if (i < 4) write_pictures(i, video, made);
    }
    json out = scores_.numbers(parallel_.group("dp+fsdp"));
    if (context_.spec().component("perceptual")) {
      double mean = 0;
      for (const double x : parallel_.sum(perceptual, /*of_stages=*/false))
        mean += x / static_cast<double>(few);
      out["perceptual"] = mean;
    }
    return out;
  }

  void write_pictures(size_t i, const at::Tensor& video, const at::Tensor& made) {
    const auto write = [&](const char* name, const at::Tensor& shown) {
      write_strip(context_, frames_of(shown.cpu()), 5,
                  context_.folder() / "samples" / (name + std::to_string(i) + ".png"));
    };
    write("original_", video);
    write("reconstruction_", made);
  }

  JobContext& context_;
  TrainTokenizerOptions options_;
  at::Device device_;
  uint64_t seed_;
  std::unique_ptr<TokenizerClips> clips_;
  Parallelism parallel_;
  Tokenizer network_;
  TokenizerObjective objective_;
  std::optional<TokenizerCritic> critic_;
  ReconstructionScores scores_;
  std::optional<VideoFeatures> features_;
  int64_t encoded_ = 0;
};

}  // namespace

class TrainTokenizer final : public TensorJob {
 public:
  using Options = TrainTokenizerOptions;
  static JobParts parts();
  std::vector<std::string> grows_by() const override { return {"steps"}; }

 private:
  void work(JobContext&) const override;
  void examine(JobCheck& check) const override { check_train_tokenizer(check); }
};

JobParts TrainTokenizer::parts() {
  return {
      .slots = {{.name = "tokenizer",
                 .kind = "tokenizer",
                 .required = true,
                 .help = "network to train",
                 .weights = "weights"},
                kTransformsSlot,
                {.name = "perceptual", .kind = "loss", .help = "distance between two videos, such as lpips"},
                {.name = "critic",
                 .kind = "model",
                 .help = "discriminator for an adversarial loss: "
                         "patch-discriminator"},
                {.name = "features",
                 .kind = "model",
                 .help =
                     "encoder of videos or images for the frechet_distance of evaluated clips: clip-vision",
                 .weights = "features_weights"},
                kOptimizerSlot,
                {.name = "scores",
                 .kind = "score",
                 .list = true,
                 .help = "measures of evaluated clips; without any: psnr, ssim and, with a feature model, "
                         "frechet"},
                kParallelSlot,
                kCollectiveSlot},
      .reads = {"shard", "path", "data"},
      .tensors = true};
}

void TrainTokenizer::work(JobContext& context) const {
  const auto options = context.options<TrainTokenizerOptions>();
  use_threads(options.threads);
  TokenizerTraining(context, options).run();
}

}  // namespace kinora::core

using kinora::core::TrainTokenizer;
KINORA_JOB(TrainTokenizer)
KINORA_PLUGIN(TrainTokenizer)
