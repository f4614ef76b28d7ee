#include "shots/frame_times.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace kinora::video {
namespace {

__extension__ using Wide = __int128;

constexpr double kSmallestRate = 1e-9;
constexpr double kLargestRate = 1e12;  // keeps the fractions below within 128 bits; far above any video
constexpr double kNtscTolerance = 1e-3;
constexpr int64_t kLargestDenominator = 10000;
constexpr double kFarthestTime = 4e18;  // microseconds; twice it still fits 64 bits

struct Fraction {
  Wide numerator;
  Wide denominator;
};

// Correctly rounded while both numbers fit a double.
double ratio(const Fraction& fraction) {
  return static_cast<double>(fraction.numerator) / static_cast<double>(fraction.denominator);
}

Wide magnitude(Wide value) { return value < 0 ? -value : value; }

// The exact value of a double as a ratio of integers in lowest terms. Rates above 1e-9 keep both well within
// 128 bits.
Fraction exact(double value) {
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  Fraction fraction{static_cast<Wide>(std::ldexp(mantissa, 53)), 1};
  exponent -= 53;
  while (exponent < 0 && fraction.numerator % 2 == 0) {
    fraction.numerator /= 2;
    ++exponent;
  }
  if (exponent < 0) fraction.denominator <<= -exponent;
  if (exponent > 0) fraction.numerator <<= exponent;
  return fraction;
}

// Nearest fraction with a denominator up to `limit`: the last convergent of the continued fraction within the
// limit, or the semiconvergent after it, whichever is nearer; on a tie the convergent.
double nearest_fraction(const Fraction& target, int64_t limit) {
  if (target.denominator <= limit) return ratio(target);
  Fraction before{0, 1};
  Fraction convergent{1, 0};
  Fraction rest = target;
  for (;;) {
    const Wide quotient = rest.numerator / rest.denominator;
    if (before.denominator + quotient * convergent.denominator > limit) break;
    const Fraction next{before.numerator + quotient * convergent.numerator,
                        before.denominator + quotient * convergent.denominator};
    before = convergent;
    convergent = next;
    rest = {rest.denominator, rest.numerator - quotient * rest.denominator};
  }
  const Wide steps = (limit - before.denominator) / convergent.denominator;
  const Fraction semiconvergent{before.numerator + steps * convergent.numerator,
                                before.denominator + steps * convergent.denominator};
  // |a/b - n/d| is compared without the common denominator d: |a*d - n*b| / b.
  const auto error = [&target](const Fraction& f) {
    return magnitude(f.numerator * target.denominator - target.numerator * f.denominator);
  };
  const bool convergent_nearer =
      error(convergent) * semiconvergent.denominator <= error(semiconvergent) * convergent.denominator;
  return ratio(convergent_nearer ? convergent : semiconvergent);
}

constexpr int64_t kMostFrames = int64_t{1} << 31;
constexpr double kLatest = 4e18;  // microseconds; twice it still fits 64 bits
constexpr double kUnknownRate = 25;

}  // namespace

double nominal_frame_rate(double frames_per_second) {
  if (!(frames_per_second > kSmallestRate) || !(frames_per_second < kLargestRate)) return 0.0;
  if (frames_per_second == std::floor(frames_per_second)) return frames_per_second;
  const double base = std::nearbyint(frames_per_second * 1001 / 1000);
  const double ntsc = base * 1000 / 1001;
  if (base > 0 && std::abs(ntsc - frames_per_second) < kNtscTolerance) return ntsc;
  return nearest_fraction(exact(frames_per_second), kLargestDenominator);
}

int64_t presentation_microseconds(int64_t pts, int64_t start, int time_base_numerator,
                                  int time_base_denominator) {
  const double time_base = static_cast<double>(time_base_numerator) / time_base_denominator;
  const double milliseconds = static_cast<double>(pts - start) * time_base * 1000;
  return static_cast<int64_t>(std::nearbyint(std::clamp(milliseconds * 1000, -kFarthestTime, kFarthestTime)));
}

int64_t nominal_frames_between(const Moment& from, const Moment& to, double rate) {
  const int64_t passed = std::max<int64_t>(0, to.microseconds - from.microseconds);
  return static_cast<int64_t>(
      std::nearbyint(std::min(static_cast<double>(passed) / 1e6 * rate, kFarthestTime)));
}

double EvenTimes::at(int64_t n) const { return std::nearbyint(microseconds_ * static_cast<double>(n)); }

bool EvenTimes::due(int64_t microseconds) {
  const auto now = static_cast<double>(microseconds);
  if (now < at(next_)) return false;
  next_ = std::max(next_, static_cast<int64_t>(std::min(now / microseconds_, kFarthestTime)));
  while (at(next_) <= now) ++next_;
  return true;
}

Moment VideoClock::next(int64_t pts, int64_t duration) {
  if (times_.empty()) start_ = pts;
  times_.push_back(microseconds(pts));
  end_pts_ = pts + duration;
  return {static_cast<int64_t>(times_.size()) - 1, times_.back()};
}

int64_t even_time(int64_t i, double fps) {
  return static_cast<int64_t>(std::nearbyint(std::min(static_cast<double>(i) * 1e6 / fps, kLatest)));
}

int64_t FrameTimes::at(int64_t frame) const {
  if (even_ == 0) return times_[static_cast<size_t>(frame)];
  return frame < even_ ? even_time(frame, fps_) : end_;
}

int64_t FrameTimes::last_within(int64_t from, int64_t end, int64_t microseconds) const {
  if (microseconds <= 0) return from;
  const int64_t latest = at(from) + microseconds;
  while (from < end) {
    const int64_t middle = from + (end - from + 1) / 2;
    if (at(middle) <= latest) {
      from = middle;
    } else {
      end = middle - 1;
    }
  }
  return from;
}

int64_t FrameTimes::first_within(int64_t first, int64_t end, int64_t microseconds) const {
  if (microseconds <= 0) return end;
  const int64_t earliest = at(end) - microseconds;
  while (first < end) {
    const int64_t middle = first + (end - first) / 2;
    if (at(middle) >= earliest) {
      end = middle;
    } else {
      first = middle + 1;
    }
  }
  return end;
}

void write_frame_times(nlohmann::json& shots, const VideoClock& clock, double fps) {
  const auto& times = clock.times();
  bool even = fps > 0;
  for (size_t i = 0; even && i < times.size(); ++i)
    even = times[i] == even_time(static_cast<int64_t>(i), fps);
  if (!even) shots["frame_times_us"] = times;
  shots["end_us"] = clock.end();
}

FrameTimes read_frame_times(const nlohmann::json& shots) {
  const int64_t frames = shots.at("frames");
  if (frames <= 0 || frames > kMostFrames) throw std::invalid_argument("frames is out of range");
  const auto given = shots.find("frame_times_us"), end = shots.find("end_us");
  const bool ends = end != shots.end() && end->is_number_integer();
  if (given == shots.end()) {
    const double rate = shots.at("fps"), fps = rate > 0 ? rate : kUnknownRate;
    const int64_t last = even_time(frames - 1, fps);
    return {frames, fps, std::max(last, ends ? end->get<int64_t>() : even_time(frames, fps))};
  }
  FrameTimes out;
  if (!ends || !given->is_array() || static_cast<int64_t>(given->size()) != frames)
    throw std::invalid_argument("frame_times_us must have one time per frame, followed by end_us");
  const auto push = [&](const nlohmann::json& time) {
    const bool ascends =
        time.is_number_integer() && (out.known() == 0 || time.get<int64_t>() >= out.at(out.known() - 1));
    if (!ascends || std::abs(time.get<double>()) > kLatest)
      throw std::invalid_argument("frame_times_us and end_us must ascend");
    out.push(time);
  };
  for (const auto& time : *given) push(time);
  push(*end);
  return out;
}

}  // namespace kinora::video
