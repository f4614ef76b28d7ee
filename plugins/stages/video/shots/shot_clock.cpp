#include "shots/shot_clock.hpp"

#include <algorithm>
#include <cmath>

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

// The exact value of a double as a ratio of integers in lowest terms. Rates above 1e-9 keep both well within 128 bits.
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

// Nearest fraction with a denominator up to `limit`: the last convergent of the continued fraction within the limit, or
// the semiconvergent after it, whichever is nearer; on a tie the convergent.
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
  return static_cast<int64_t>(std::nearbyint(std::min(static_cast<double>(passed) / 1e6 * rate, kFarthestTime)));
}

double EvenTimes::at(int64_t n) const { return std::nearbyint(microseconds_ * static_cast<double>(n)); }

bool EvenTimes::due(int64_t microseconds) {
  const auto now = static_cast<double>(microseconds);
  if (now < at(next_)) return false;
  next_ = std::max(next_, static_cast<int64_t>(std::min(now / microseconds_, kFarthestTime)));
  while (at(next_) <= now) ++next_;
  return true;
}

}  // namespace kinora::video
