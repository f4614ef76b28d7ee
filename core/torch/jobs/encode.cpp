// kind = "encode"
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/io/atomic_file.hpp"
#include "core/jobs/training.hpp"
#include "core/log.hpp"
#include "core/run/cancel.hpp"
#include "core/torch/context/network.hpp"
#include "core/torch/generating/frame_condition.hpp"
#include "core/torch/generating/image_encoder.hpp"
#include "core/torch/generating/parts.hpp"
#include "core/torch/generating/text_encoder.hpp"
#include "core/torch/jobs/checks.hpp"
#include "core/torch/jobs/jobs.hpp"
#include "core/torch/media/clips.hpp"
#include "core/torch/media/latents.hpp"
#include "core/torch/media/signals.hpp"
#include "core/torch/media/streaming.hpp"
#include "core/torch/tensors/device.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

// Mean and deviation by channel, merged piece by piece (Chan et al. 1979).
struct Statistics {
  double count = 0;
  at::Tensor mean, square;  // [C] float64; square: sum of squared deviations

  void add(const at::Tensor& latent) {  // [C, T, H, W]
    const at::Tensor x = latent.to(at::kDouble).flatten(1);
    const double n = static_cast<double>(x.size(1));
    const at::Tensor m = x.mean(1), s = (x - m.unsqueeze(1)).square().sum(1);
    if (count == 0) {
      mean = m, square = s;
    } else {
      const at::Tensor delta = m - mean;
      mean = mean + delta * (n / (count + n));
      square = square + s + delta.square() * (count * n / (count + n));
    }
    count += n;
  }
  static std::vector<double> numbers(const at::Tensor& t) {
    return {t.data_ptr<double>(), t.data_ptr<double>() + t.numel()};
  }
  // Of all channels together: the root of their mean variance, for each.
  std::vector<double> deviations(bool together) const {
    at::Tensor variance = square / count;
    if (together) variance = variance.mean().expand_as(variance);
    return numbers(variance.sqrt().clamp_min(1e-6));
  }
};

class Encoding {
 public:
  Encoding(JobContext& context, const EncodeOptions& o)
      : context_(context),
        options_(o),
        device_(device_of(o.device)),
        clips_(context, context.folder_of(context.need_upstream("shard")),
               {{"height", o.height}, {"width", o.width}, {"stride", o.every}}, o.memory),
        tokenizer_(open_part(context, part_of(context, "tokenizer", "tokenizer_weights", "train-tokenizer"),
                             {.device = device_})),
        codes_(tokenizer_->info().discrete != 0),
        text_(context, context.spec(), device_),
        signals_(o.signals, o.every),
        cache_(context.folder() / "latents.h5", json{{"job", context.spec().name}}.dump()) {
    if (context.spec().component("image_encoder"))
      image_.emplace(context, context.spec(), ChainOptions{.device = device_});
  }

  void run() {
    Progress progress(context_.spec().name, clips_.size(), "clips");
    for (int64_t i = 0; i < clips_.size(); ++i) {
      add(i);
      progress.update(i + 1, std::to_string(windows_) + " windows");
    }
    if (windows_ == 0 && without_signal_ > 0)
      raise(KINORA_DATA, "no clip is of use, and of {} {} lack a signal, the last one because {}",
            clips_.size(), without_signal_, why_);
    if (windows_ == 0) throw clips_.none_usable(too_short_, options_.frames);
    finish();
  }

 private:
  // Every window of a clip, or the count of why there is none.
  void add(int64_t i) {
    const auto given = signals_.of(clips_.facts(i), why_);
    if (!given) {
      ++without_signal_;
      log_warn("{}: clip {} is left out: {}", context_.spec().name, clips_.key(i), why_);
      return;
    }
    const at::Tensor frames = clips_.try_frames(i);
    if (!frames.defined()) return;
    if (frames.size(0) < options_.frames) {
      ++too_short_;
      return;
    }
    const at::Tensor embedding = text_(clips_.caption(i));
    const int64_t stride = options_.stride > 0 ? options_.stride : options_.frames;
    for (int64_t first = 0; first + options_.frames <= frames.size(0); first += stride) {
      if (cancelled()) throw Error(KINORA_CANCELLED, "cancelled");
      const auto video = [&](int64_t at, int64_t count) {
        return video_of(frames, first + at, count).to(device_);
      };
      const at::Tensor latent = encode_video(*tokenizer_, options_.frames, video)[0].contiguous();
      if (!codes_) statistics_.add(latent);
      facts_.shape = latent.sizes().vec();
      facts_.text_size = embedding.size(1);
      NamedTensors tensors = *given;
      tensors.insert({{codes_ ? "codes" : "latent", latent}, {"text", embedding}});
      if (options_.first_frame)
        tensors["condition"] =
            masked_picture(encode_video(*tokenizer_, options_.frames, followed_by_grey(video(0, 1))),
                           tokenizer_->info().time)[0]
                .contiguous();
      if (image_) tensors["image"] = (*image_)(frames[first]);
      cache_.add(clips_.key(i) + "@" + std::to_string(first), tensors);
      ++windows_;
    }
  }

  void finish() {
    facts_.scale.sigma_data = options_.sigma_data;
    if (!codes_) {
      facts_.scale.mean = Statistics::numbers(statistics_.mean);
      facts_.scale.std = statistics_.deviations(options_.scale == "latent");
    }
    facts_.fps = clips_.fps() / static_cast<double>(options_.every);
    cache_.commit();
    const auto& folder = context_.folder();
    or_throw(write_file_atomically(folder / "latents.json", facts_.to_json().dump(2) + "\n"));
    context_.summary.update({{"samples", windows_},
                             {"clips", clips_.size()},
                             {"too_short", too_short_},
                             {"failed", clips_.failed()},
                             {"without_signal", without_signal_},
                             {"latent_shape", facts_.shape},
                             {"bytes", std::filesystem::file_size(folder / "latents.h5")}});
  }

  JobContext& context_;
  EncodeOptions options_;
  at::Device device_;
  Clips clips_;
  std::unique_ptr<Network> tokenizer_;
  bool codes_;
  TextEncoder text_;
  std::optional<ImageEncoder> image_;
  Signals signals_;
  LatentCacheWriter cache_;
  Statistics statistics_;
  LatentFacts facts_;
  int64_t windows_ = 0, too_short_ = 0, without_signal_ = 0;
  std::string why_;  // the last clip lacks a signal
};

}  // namespace

void run_encode(JobContext& context) {
  require(context, check_encode);
  const auto options = context.options<EncodeOptions>();
  use_threads(options.threads);
  const at::NoGradGuard off;
  Encoding(context, options).run();
}

}  // namespace kinora::core
