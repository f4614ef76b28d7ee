#include "shots/settled_frames.hpp"

#include <algorithm>
#include <cmath>

namespace kinora::video {

SettledFrames::SettledFrames(const DetectorOptions& options, double rate)
    : options_(options),
      filter_(options.filter == "merge" ? FlashFilter::Mode::merge : FlashFilter::Mode::suppress, options.min_length,
              rate) {}

int64_t SettledFrames::after(const ShotDetector& detector, const Moment& now) {
  if (options_.name == "adaptive") return std::max<int64_t>(0, now.frame - options_.window + 1);
  if (options_.name == "threshold") return after_fade(detector.scores().back(), now);
  if (options_.name != "content") return now.frame + 1;
  filter_.push(detector.scores().back() >= options_.threshold, now);
  return filter_.settled(now);
}

int64_t SettledFrames::after_fade(double mean, const Moment& now) {
  const bool out = (mean < std::trunc(options_.threshold)) == (options_.fade == "floor");
  if (first_ || out != out_) {
    out_ = out;
    faded_ = now.frame;
  }
  first_ = false;
  return out_ ? faded_ : now.frame + 1;
}

}  // namespace kinora::video
