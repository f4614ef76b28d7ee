// The learning rate of a training's steps.
#pragma once
#include <cstdint>
#include <string>

namespace kinora::core {

// Learning rate as a function of the step.
struct Schedule {
  std::string kind = "constant";  // "cosine", "linear" or "wsd"
  double learning_rate = 1e-4;
  double final_rate = 0;  // of all kinds but constant, at `total`
  int64_t warmup = 0;     // steps of a linear rise; step 0 already gets 1 / warmup of it
  int64_t total = 0;      // steps of the run including warmup; required by all kinds but constant
  // wsd (warm-up, stable, decay; Hu et al. 2024, arXiv 2404.06395): decays over the last decay_share of
  // `total`.
  double decay_share = 0.2;
  std::string decay_shape = "1-sqrt";  // Haegele et al. 2024, arXiv 2405.18392; or "linear"
};

// Learning rate of step 0, 1, ...: a pure function.
double rate(const Schedule& schedule, int64_t step);

}  // namespace kinora::core
