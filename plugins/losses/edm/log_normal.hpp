// The noise levels that Cosmos trains on: log-normal as EDM's, and for a small share of the samples far
// higher levels, so that training covers the levels at which samplers start.
#pragma once
#include <limits>
#include <string>

#include "kinora/options.hpp"
#include "kinora/tensor.hpp"
#include "plugins/losses/share.hpp"

namespace kinora {

struct LevelOptions {
  double p_mean = 0, p_std = 1, level_scale = 1;
  double sigma_min = 0, sigma_max = std::numeric_limits<double>::infinity();
  double high_sigma_share = 0, high_sigma_min = 200, high_sigma_max = 1e5;
  std::string limits = "truncate";
};

template <class Options>
void describe_levels(Describe<Options>& d) {
  d.option("p_mean", &Options::p_mean).help("mean of ln(sigma)");
  d.option("p_std", &Options::p_std).above(0).help("standard deviation of ln(sigma)");
  d.option("level_scale", &Options::level_scale)
      .above(0)
      .help(
          "factor of drawn levels; Cosmos' adjust_video_noise is the square root of the number of latent "
          "frames");
  d.option("sigma_min", &Options::sigma_min).at_least(0).help("lower limit of drawn levels; 0: none");
  d.option("sigma_max", &Options::sigma_max).above(0).help("upper limit of drawn levels; inf: none");
  d.option("limits", &Options::limits)
      .choices({"truncate", "clamp"})
      .help(
          "truncate: levels are drawn from their distribution within sigma_min and sigma_max; clamp: levels "
          "outside become the nearer limit");
  d.option("high_sigma_share", &Options::high_sigma_share)
      .range(0, 1)
      .help("share of the levels drawn log-uniformly from high_sigma_min to high_sigma_max instead");
  d.option("high_sigma_min", &Options::high_sigma_min).above(0).help("lowest level of that share");
  d.option("high_sigma_max", &Options::high_sigma_max).above(0).help("highest level of that share");
}

// uniform in (0, 1) of any shape -> sigma, float64. One number decides both whether a level belongs to the
// high share (numbers above 1 - share do) and its value: each part, stretched to (0, 1), is uniform again.
// Throws in the constructor if a range is empty.
class LogNormal {
 public:
  explicit LogNormal(const LevelOptions& o);
  Tensor operator()(const Tensor& uniform) const;

 private:
  LevelOptions o_;
  Share kept_;  // of the log-normal part
};

}  // namespace kinora
