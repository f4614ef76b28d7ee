// A measured quantity that ages: the mean of what was seen, where what is one half-life old counts half.
#pragma once
#include <algorithm>
#include <cmath>

namespace kinora::balance {

class Estimate {
 public:
  // half_life: seconds.
  explicit Estimate(double half_life = 10) : half_life_(half_life) {}

  // `mean` over n samples that were seen until time `now` (seconds, never decreasing).
  void add(double mean, double n, double now) {
    if (n <= 0) return;
    age(now);
    weight_ += n;
    squares_ += n;  // of weights: n samples of weight 1
    sum_ += n * mean;
    // The spread of single samples, from means of n: each mean differs from the truth by spread / sqrt(n).
    const double off = mean - value();
    spread_weight_ += 1;
    spread_ += n * off * off;
  }
  bool known() const { return weight_ > 0; }
  double value() const { return weight_ > 0 ? sum_ / weight_ : 0; }
  // Standard error of value(), relative to it; 1 while too little was seen to say.
  double error() const {
    if (spread_weight_ < 2 || value() <= 0) return 1;
    const double variance = spread_ / (spread_weight_ - 1);
    const double effective = weight_ * weight_ / squares_;
    return std::min(1.0, std::sqrt(variance / effective) / value());
  }

 private:
  void age(double now) {
    const double keep = std::exp2(-std::max(0.0, now - now_) / half_life_);
    now_ = std::max(now, now_);
    weight_ *= keep;
    sum_ *= keep;
    squares_ *= keep * keep;
    spread_ *= keep;
    spread_weight_ *= keep;
  }
  double half_life_, now_ = 0;
  double weight_ = 0, squares_ = 0, sum_ = 0, spread_ = 0, spread_weight_ = 0;
};

}  // namespace kinora::balance
