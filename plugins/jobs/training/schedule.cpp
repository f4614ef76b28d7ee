#include "plugins/jobs/training/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

// The remaining height after share t of the decay: 1 at 0, 0 at 1.
double left_of(const Schedule& s, double t) {
  if (s.kind == "cosine") return 0.5 * (1 + std::cos(std::numbers::pi * t));
  return s.kind == "wsd" && s.decay_shape == "1-sqrt" ? 1 - std::sqrt(t) : 1 - t;
}

}  // namespace

double rate(const Schedule& s, int64_t step) {
  if (s.kind != "constant" && s.kind != "cosine" && s.kind != "linear" && s.kind != "wsd")
    raise(KINORA_ERROR_INVALID, "learning rate schedule '{}' is unknown; use constant, cosine, linear or wsd",
          s.kind);
  if (step < s.warmup) return s.learning_rate * static_cast<double>(step + 1) / static_cast<double>(s.warmup);
  if (s.kind == "constant") return s.learning_rate;
  if (s.total <= s.warmup)
    raise(KINORA_ERROR_INVALID, "a {} schedule requires more steps ({}) than its warmup ({})", s.kind,
          s.total, s.warmup);
  const auto total = static_cast<double>(s.total), warmup = static_cast<double>(s.warmup);
  const double begin = s.kind == "wsd" ? std::max(warmup, total * (1 - s.decay_share)) : warmup;
  const auto at = static_cast<double>(step);
  if (at < begin || total <= begin) return s.learning_rate;
  const double t = std::min(1.0, (at - begin) / (total - begin));
  return s.final_rate + (s.learning_rate - s.final_rate) * left_of(s, t);
}

}  // namespace kinora::core
