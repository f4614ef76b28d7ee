#include "plugins/jobs/encode/latent_merge.hpp"

#include <ATen/ATen.h>

#include "core/io/atomic_file.hpp"
#include "core/base/log.hpp"
#include "core/base/cancel.hpp"
#include "core/torch/media/latents.hpp"
#include "core/torch/media/signals.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

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
  // One deviation per channel, or for all channels the root of their mean variance.
  std::vector<double> deviations(bool together) const {
    at::Tensor variance = square / count;
    if (together) variance = variance.mean().expand_as(variance);
    return numbers(variance.sqrt().clamp_min(1e-6));
  }
};

class Merge {
 public:
  Merge(const fs::path& folder, const std::string& job, const LatentParts& parts, Clips& clips,
        const EncodeOptions& options)
      : folder_(folder),
        job_(job),
        parts_(parts),
        clips_(clips),
        options_(options),
        signals_(options.signals, options.every),
        cache_(folder / "latents.h5", json{{"job", job}}.dump()) {}

  json run() {
    for (int64_t part = 0; part < parts_.size(); ++part) {
      if (cancelled()) throw Error(KINORA_CANCELLED, "cancelled");
      add_part(part);
    }
    require_some();
    finish();
    parts_.remove();
    return {{"samples", counts_["windows"]},
            {"clips", clips_.size()},
            {"too_short", counts_["too_short"]},
            {"failed", counts_["failed"]},
            {"without_signal", counts_["without_signal"]},
            {"latent_shape", facts_.shape},
            {"bytes", fs::file_size(folder_ / "latents.h5")}};
  }

 private:
  void add_part(int64_t part) {
    const json outcomes = parts_.outcomes(part);
    std::optional<LatentCache> cache;
    for (int64_t i = parts_.first_clip(part); i < parts_.last_clip(part); ++i) {
      const json& clip = outcomes.at(static_cast<size_t>(i - parts_.first_clip(part)));
      // In order, since the first clip decides the length of a list.
      const auto given = signals_.of(clip.value("facts", json()), why_);
      if (!given) {
        ++counts_["without_signal"];
        log_warn("{}: clip {} is left out: {}", job_, clips_.key(i), why_);
        continue;
      }
      if (clip.at("outcome") != "encoded") ++counts_[clip.at("outcome")];
      for (const int64_t first : clip.value("windows", std::vector<int64_t>())) {
        if (!cache) cache.emplace(parts_.cache(part));
        add(clips_.key(i) + "@" + std::to_string(first), *cache, *given);
      }
    }
  }

  void add(const std::string& key, const LatentCache& from, NamedTensors tensors) {
    tensors.merge(from.read(key));
    const auto latent = tensors.find("latent");
    facts_.shape = (latent == tensors.end() ? tensors.at("codes") : latent->second).sizes().vec();
    facts_.text_size = tensors.at("text").size(1);
    if (latent != tensors.end()) statistics_.add(latent->second);
    cache_.add(key, tensors);
    ++counts_["windows"];
  }

  void require_some() {
    if (counts_["windows"] > 0) return;
    parts_.remove();
    if (counts_["without_signal"] > 0)
      raise(KINORA_DATA, "no clip can be used; of {} clips {} lack a signal, the last one because {}",
            clips_.size(), counts_["without_signal"], why_);
    throw clips_.none_usable(counts_["too_short"], counts_["failed"], options_.frames);
  }

  void finish() {
    facts_.scale.sigma_data = options_.sigma_data;
    if (statistics_.count > 0) {
      facts_.scale.mean = Statistics::numbers(statistics_.mean);
      facts_.scale.std = statistics_.deviations(options_.scale == "latent");
      if (options_.scale == "none") {
        std::fill(facts_.scale.mean.begin(), facts_.scale.mean.end(), 0);
        std::fill(facts_.scale.std.begin(), facts_.scale.std.end(), 1);
      }
    }
    facts_.fps = clips_.fps() / static_cast<double>(options_.every);
    cache_.commit();
    or_throw(write_file_atomically(folder_ / "latents.json", facts_.to_json().dump(2) + "\n"));
  }

  const fs::path& folder_;
  const std::string& job_;
  const LatentParts& parts_;
  Clips& clips_;
  const EncodeOptions& options_;
  Signals signals_;
  LatentCacheWriter cache_;
  Statistics statistics_;
  LatentFacts facts_;
  std::map<std::string, int64_t> counts_;
  std::string why_;  // why the last clip lacks a signal
};

}  // namespace

json merge_latents(const fs::path& folder, const std::string& job, const LatentParts& parts, Clips& clips,
                   const EncodeOptions& options) {
  return Merge(folder, job, parts, clips, options).run();
}

}  // namespace kinora::core
