// kind = "encode"
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/io/atomic_file.hpp"
#include "core/jobs/training.hpp"
#include "core/log.hpp"
#include "core/run/cancel.hpp"
#include "core/torch/context/network.hpp"
#include "core/torch/generating/image_encoder.hpp"
#include "core/torch/generating/parts.hpp"
#include "core/torch/generating/text_encoder.hpp"
#include "core/torch/jobs/jobs.hpp"
#include "core/torch/media/clips.hpp"
#include "core/torch/media/latents.hpp"
#include "core/torch/media/signals.hpp"
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
};

}  // namespace

std::unique_ptr<Network> trained_tokenizer(JobContext& context, const JobSpec& job) {
  auto network = std::make_unique<Network>(context.open(*job.component("tokenizer")),
                                           job.component("tokenizer")->options, ChainOptions{});
  network->load(context.folder_of(job) / "weights.safetensors");
  return network;
}

void run_encode(JobContext& context) {
  const auto options = context.options<EncodeOptions>();
  use_threads(options.threads);
  const at::NoGradGuard off;
  const at::Device device = device_of(options.device);
  Clips clips(context, context.folder_of(context.need_upstream("shard")),
              {{"height", options.height}, {"width", options.width}, {"stride", options.every}},
              options.memory);
  const auto tokenizer = open_part(
      context, part_of(context, "tokenizer", "tokenizer_weights", "train-tokenizer"), {.device = device});
  const bool codes = tokenizer->info().discrete != 0;
  TextEncoder text(context, context.spec(), device);
  std::optional<ImageEncoder> image;
  if (context.spec().component("image_encoder"))
    image.emplace(context, context.spec(), ChainOptions{.device = device});
  Signals signals(options.signals, options.every);
  LatentCacheWriter cache(context.folder() / "latents.h5",
                          nlohmann::json{{"job", context.spec().name}}.dump());
  Statistics statistics;
  LatentFacts facts;
  Progress progress(context.spec().name, clips.size(), "clips");
  int64_t windows = 0, too_short = 0, without_signal = 0;
  std::string why;
  const int64_t stride = options.stride > 0 ? options.stride : options.frames;
  for (int64_t i = 0; i < clips.size(); ++i) {
    const auto given = signals.of(clips.facts(i), why);
    if (!given) {
      ++without_signal;
      log_warn("{}: clip {} is left out: {}", context.spec().name, clips.key(i), why);
      continue;
    }
    const at::Tensor frames = clips.try_frames(i);
    if (!frames.defined()) continue;
    if (frames.size(0) < options.frames) {
      ++too_short;
      continue;
    }
    const at::Tensor embedding = text(clips.caption(i));
    for (int64_t first = 0; first + options.frames <= frames.size(0); first += stride) {
      if (cancelled()) throw Error(KINORA_CANCELLED, "cancelled");
      const at::Tensor latent =
          tokenizer->encode(video_of(frames, first, options.frames).to(device))[0].to(at::kCPU).contiguous();
      if (!codes) statistics.add(latent);
      facts.shape = latent.sizes().vec();
      facts.text_size = embedding.size(1);
      NamedTensors tensors = *given;
      tensors.insert({{codes ? "codes" : "latent", latent}, {"text", embedding}});
      if (image) tensors["image"] = (*image)(frames[first]);
      cache.add(clips.key(i) + "@" + std::to_string(first), tensors);
      ++windows;
    }
    progress.update(i + 1, std::to_string(windows) + " windows");
  }
  if (windows == 0 && without_signal > 0)
    raise(KINORA_DATA, "job '{}': no clip is of use, and of {} {} lack a signal, the last one because {}",
          context.spec().name, clips.size(), without_signal, why);
  if (windows == 0) throw clips.none_usable(too_short, options.frames);
  facts.scale.sigma_data = options.sigma_data;
  if (!codes) {
    facts.scale.mean = Statistics::numbers(statistics.mean);
    at::Tensor variance = statistics.square / statistics.count;
    if (options.scale == "latent") variance = variance.mean().expand_as(variance);
    facts.scale.std = Statistics::numbers(variance.sqrt().clamp_min(1e-6));
  }
  facts.fps = clips.fps() / static_cast<double>(options.every);
  cache.commit();
  or_throw(write_file_atomically(context.folder() / "latents.json", facts.to_json().dump(2) + "\n"));
  context.summary.update({{"samples", windows},
                          {"clips", clips.size()},
                          {"too_short", too_short},
                          {"failed", clips.failed()},
                          {"without_signal", without_signal},
                          {"latent_shape", facts.shape},
                          {"bytes", std::filesystem::file_size(context.folder() / "latents.h5")}});
}

}  // namespace kinora::core
