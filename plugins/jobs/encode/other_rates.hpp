// Latents have one frame rate for all, that of the first clip: counts the clips that have another.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/base/log.hpp"

namespace kinora::core {

class OtherRates {
 public:
  // taken: frames per second that count for all; 0: those of the first that is added.
  explicit OtherRates(double taken = 0) : taken_(taken) {}
  double taken() const { return taken_; }

  // fps: of a clip or window; 0: unknown.
  void add(double fps) {
    constexpr double kSame = 0.01;  // share; 29.97 is 30
    if (fps <= 0) return;
    ++count_;
    if (taken_ <= 0) taken_ = fps;
    if (std::abs(fps - taken_) < kSame * taken_) return;
    least_ = others_++ > 0 ? std::min(least_, fps) : fps;
    most_ = std::max(most_, fps);
  }

  // Warns in one line, unless each clip's rate is one of the cached signals.
  void log(const std::string& job, const std::vector<std::string>& signals) const {
    if (others_ == 0 || std::find(signals.begin(), signals.end(), "fps") != signals.end()) return;
    const std::string rates =
        least_ == most_ ? fmt::format("{:.4g}", most_) : fmt::format("{:.4g} to {:.4g}", least_, most_);
    log_warn(
        "{}: its latents count as {:.4g} frames per second, the rate of the first clip, but {} of {} clips "
        "{} {}: what a model learns from them moves too fast or too slowly; encode clips of one rate, or "
        "cache "
        "each clip's with signals = [\"fps\"]",
        job, taken_, others_, count_, others_ == 1 ? "has" : "have", rates);
  }

 private:
  double taken_, least_ = 0, most_ = 0;
  int64_t count_ = 0, others_ = 0;
};

}  // namespace kinora::core
