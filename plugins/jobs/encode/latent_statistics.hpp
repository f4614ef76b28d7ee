// Mean and deviation of latents by channel, merged piece by piece (Chan et al. 1979).
#pragma once
#include <algorithm>
#include <vector>

#include <ATen/ATen.h>

#include "plugins/jobs/latents/latents.hpp"
#include "plugins/jobs/windows/encode_options.hpp"

namespace kinora::core {

class LatentStatistics {
 public:
  void add(const at::Tensor& latent) {  // [C, T, H, W]
    const at::Tensor x = latent.to(at::kDouble).flatten(1);
    const double n = static_cast<double>(x.size(1));
    const at::Tensor m = x.mean(1), s = (x - m.unsqueeze(1)).square().sum(1);
    if (count_ == 0) {
      mean_ = m, square_ = s;
    } else {
      const at::Tensor delta = m - mean_;
      mean_ = mean_ + delta * (n / (count_ + n));
      square_ = square_ + s + delta.square() * (count_ * n / (count_ + n));
    }
    count_ += n;
  }

  // The scale that the job's options ask for; without latents, of codes, only sigma_data.
  LatentScale scale(const EncodeOptions& options) const {
    LatentScale out;
    out.sigma_data = options.sigma_data;
    if (count_ == 0) return out;
    out.mean = numbers(mean_);
    out.std = deviations(options.scale == "latent");
    if (options.scale == "none") {
      std::fill(out.mean.begin(), out.mean.end(), 0);
      std::fill(out.std.begin(), out.std.end(), 1);
    }
    return out;
  }

 private:
  static std::vector<double> numbers(const at::Tensor& t) {
    return {t.data_ptr<double>(), t.data_ptr<double>() + t.numel()};
  }
  // One deviation per channel, or for all channels the root of their mean variance.
  std::vector<double> deviations(bool together) const {
    at::Tensor variance = square_ / count_;
    if (together) variance = variance.mean().expand_as(variance);
    return numbers(variance.sqrt().clamp_min(1e-6));
  }

  double count_ = 0;
  at::Tensor mean_, square_;  // [C] float64; square: sum of squared deviations
};

}  // namespace kinora::core
