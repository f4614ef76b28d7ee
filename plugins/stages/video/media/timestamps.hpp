#pragma once

#include <cstdint>

namespace kinora::video {

// Turns a video's timestamps into a strictly increasing clock, one at a time; valid ones are unchanged.
//   missing            -> previous + one nominal frame (0 for the first frame)
//   not increasing     -> previous + 1 tick
//   a second or more back (a joined stream whose clock restarts) -> previous + one nominal frame, and
//                         later timestamps are shifted by the same amount
// All values are ticks; values beyond 2^60 count as missing, so sums cannot overflow.
class TimestampRepair {
 public:
  static constexpr int64_t kMissing = INT64_MIN;

  TimestampRepair() = default;
  TimestampRepair(int64_t nominal_frame, int64_t second) : nominal_(nominal_frame), second_(second) {}

  int64_t place(int64_t raw) {
    const int64_t pts = placed(raw);
    repaired_ = repaired_ || pts != raw;
    last_ = pts;
    first_ = false;
    return pts;
  }

  bool repaired() const { return repaired_; }  // whether any timestamp was changed

 private:
  static constexpr int64_t kLargest = int64_t{1} << 60;
  static bool sane(int64_t pts) { return pts > -kLargest && pts < kLargest; }

  int64_t placed(int64_t raw) {
    const bool known = sane(raw) && sane(raw + offset_);
    if (first_) return known ? raw : 0;
    if (!known) return last_ + nominal_;
    const int64_t pts = raw + offset_;
    if (pts > last_) return pts;
    if (last_ - pts < second_) return last_ + 1;
    offset_ += last_ + nominal_ - pts;
    return last_ + nominal_;
  }

  int64_t nominal_ = 1, second_ = 1;
  int64_t last_ = 0, offset_ = 0;
  bool first_ = true, repaired_ = false;
};

}  // namespace kinora::video
