// kind = "train-tokenizer"
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "core/io/atomic_file.hpp"
#include "core/jobs/training.hpp"
#include "core/torch/clips.hpp"
#include "core/torch/jobs/jobs.hpp"
#include "core/torch/noise.hpp"
#include "core/torch/trainer.hpp"

namespace kinora::core {
namespace {

double psnr(const at::Tensor& a, const at::Tensor& b) {  // of videos in [-1, 1]
  return -10 * std::log10((a - b).square().mean().item<double>() / 4);
}

// A random crop in time: which frame it starts with depends on (seed, n) only.
int64_t start_of(int64_t n, int64_t length, int64_t frames, uint64_t seed) {
  const double u = sample_uniform({1}, seed, n, "tokenizer.start").item<double>();
  return std::min<int64_t>(static_cast<int64_t>(u * static_cast<double>(length - frames + 1)),
                           length - frames);
}

class TokenizerTraining {
 public:
  TokenizerTraining(JobContext& context, const TrainTokenizerOptions& o)
      : context_(context),
        options_(o),
        seed_(static_cast<uint64_t>(context.run().seed)),
        clips_(context, context.folder_of(context.need_upstream("shard")),
               {{"height", o.height}, {"width", o.width}, {"stride", o.every}}, o.memory),
        parallel_(context),
        network_(context.open_slot("tokenizer"), context.spec().component("tokenizer")->options,
                 {.seed = seed_, .dtype = parallel_.parameter_dtype()}, parallel_.links()) {
    for (int64_t i = 0; i < clips_.size(); ++i) {
      const at::Tensor frames = clips_.try_frames(i);
      if (!frames.defined()) continue;
      if (frames.size(0) < o.frames)
        ++too_short_;
      else
        usable_.push_back(i);
    }
    if (usable_.empty()) throw clips_.none_usable(too_short_, o.frames);
  }

  void run() {
    Trainer trainer(context_, network_, parallel_, options_);
    trainer.run([&](int64_t first, int64_t count) { return micro_loss(first, count); });
    trainer.use_average();
    trainer.save_weights();
    const double quality = evaluate();
    context_.summary.update(trainer.summary());
    context_.summary.update({{"psnr", quality},
                             {"clips", clips_.size()},
                             {"used", usable_.size()},
                             {"too_short", too_short_},
                             {"failed", clips_.failed()}});
  }

 private:
  at::Tensor crop(int64_t n) {
    const at::Tensor frames =
        clips_.frames(usable_[static_cast<size_t>(shuffled(n, static_cast<int64_t>(usable_.size()), seed_))]);
    return video_of(frames, start_of(n, frames.size(0), options_.frames, seed_), options_.frames);
  }

  MicroLoss micro_loss(int64_t first, int64_t count) {
    std::vector<at::Tensor> crops;
    for (int64_t n = first; n < first + count; ++n) crops.push_back(crop(n));
    const at::Tensor video = at::cat(crops).to(parallel_.parameter_dtype());
    const at::Tensor error = network_.decode(network_.encode(video)) - video;
    const double share = static_cast<double>(count) / static_cast<double>(options_.batch);
    const at::Tensor l1 = error.abs().mean() * share, mse = error.square().mean() * share;
    return {
        options_.l1 * l1 + options_.mse * mse, {{"l1", l1.item<double>()}, {"mse", mse.item<double>()}}, {}};
  }

  // Reconstructs the start of a few clips; leaves pictures of the first and returns the mean PSNR.
  double evaluate() {
    const at::NoGradGuard off;
    std::filesystem::create_directories(context_.folder() / "samples");
    double sum = 0;
    const size_t n = std::min<size_t>(usable_.size(), 8);
    for (size_t i = 0; i < n; ++i) {
      const at::Tensor video =
          video_of(clips_.frames(usable_[i]), 0, options_.frames).to(parallel_.parameter_dtype());
      const at::Tensor made = network_.decode(network_.encode(video)).clamp(-1, 1);
      sum += psnr(made, video);
      if (i < 4) {
        write_strip(context_, frames_of(video), 5,
                    context_.folder() / "samples" / ("original_" + std::to_string(i) + ".png"));
        write_strip(context_, frames_of(made), 5,
                    context_.folder() / "samples" / ("reconstruction_" + std::to_string(i) + ".png"));
      }
    }
    return sum / static_cast<double>(n);
  }

  JobContext& context_;
  TrainTokenizerOptions options_;
  uint64_t seed_;
  Clips clips_;
  Parallelism parallel_;
  Network network_;
  std::vector<int64_t> usable_;  // clips that are whole and long enough
  int64_t too_short_ = 0;
};

}  // namespace

void write_strip(JobContext& context, const at::Tensor& frames, int64_t count,
                 const std::filesystem::path& file) {
  const int64_t n = std::min(count, frames.size(0));
  const at::Tensor at = at::linspace(0, static_cast<double>(frames.size(0) - 1), n).round().to(at::kLong);
  Sample sample("strip");
  set_frames(sample, frames.index_select(0, at));
  const OneStage write(context.runtime(), "video.write", json{{"format", "png"}});
  const Sample made = write(sample);
  const auto bytes = *made.bytes("png");
  or_throw(write_file_atomically(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

void use_threads(int64_t threads) {
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
}

void run_train_tokenizer(JobContext& context) {
  const auto options = context.options<TrainTokenizerOptions>();
  use_threads(options.threads);
  TokenizerTraining(context, options).run();
}

}  // namespace kinora::core
