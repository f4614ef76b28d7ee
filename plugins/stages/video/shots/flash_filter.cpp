#include "shots/flash_filter.hpp"

namespace kinora::video {

FlashFilter::FlashFilter(Mode mode, int64_t min_length, double rate)
    : mode_(mode), min_length_(min_length), rate_(rate) {}

bool FlashFilter::min_length_between(const Moment& from, const Moment& to) const {
  return nominal_frames_between(from, to, rate_) >= min_length_;
}

std::optional<int64_t> FlashFilter::push(bool above, const Moment& now) {
  if (min_length_ <= 0) return above ? std::optional(now.frame) : std::nullopt;
  if (!started_) last_above_ = now;
  started_ = true;
  if (mode_ == Mode::merge) return merge(above, now);
  if (!above || !min_length_between(last_above_, now)) return std::nullopt;
  last_above_ = now;
  return now.frame;
}

int64_t FlashFilter::settled(const Moment& now) const {
  const bool open = in_burst_ && min_length_between(burst_start_, last_above_);
  return open ? last_above_.frame : now.frame + 1;
}

std::optional<int64_t> FlashFilter::continue_burst(bool above, bool quiet_long_enough) {
  if (above || !quiet_long_enough || !min_length_between(burst_start_, last_above_)) return std::nullopt;
  in_burst_ = false;
  return last_above_.frame;
}

std::optional<int64_t> FlashFilter::merge(bool above, const Moment& now) {
  const bool min_length_met = min_length_between(last_above_, now);
  if (above) last_above_ = now;
  if (in_burst_) return continue_burst(above, min_length_met);
  if (!above) return std::nullopt;
  if (min_length_met) {
    cut_emitted_ = true;
    return now.frame;
  }
  if (cut_emitted_) {
    in_burst_ = true;
    burst_start_ = now;
  }
  return std::nullopt;
}

}  // namespace kinora::video
