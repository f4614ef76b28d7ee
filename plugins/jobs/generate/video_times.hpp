// How long the parts of a video took, in seconds, by the names of the server's metrics.
#pragma once
#include <algorithm>
#include <chrono>

#include <nlohmann/json.hpp>

#include "plugins/jobs/inference/session.hpp"

namespace kinora::core {

// step() and told() on the session's thread, frames() on that of its frames.
class VideoTimes {
 public:
  void step() { ++steps_; }
  void frames() {
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    if (told_.contains("first_frame"))
      told_["chunk"].push_back(seconds);
    else
      told_["first_frame"] = seconds;
    last_ = now;
  }
  // step: the mean of all.
  nlohmann::json told(const inference::Session::Made& made) const {
    nlohmann::json out = told_;
    out["denoise"] = made.denoise_seconds;
    out["decode"] = made.decode_seconds;
    out["step"] = made.denoise_seconds / static_cast<double>(std::max<int64_t>(steps_, 1));
    return out;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
  int64_t steps_ = 0;
  nlohmann::json told_ = nlohmann::json::object();
};

}  // namespace kinora::core
