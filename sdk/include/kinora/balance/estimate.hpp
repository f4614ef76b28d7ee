// A measured quantity that ages: the mean of what was seen, where what is one half-life old counts half. Of several
// half-lives the longest one counts whose mean says nothing else than those of the shorter ones, beyond what chance
// explains (Lepski's rule): it follows a change within seconds, a slow one with little delay, and noise hardly.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

namespace kinora::balance {

class Estimate {
 public:
  // Seconds: the shortest half-life, and the longest; those between double.
  explicit Estimate(double half_life = 1, double long_half_life = 16) {
    for (double h = half_life; h <= long_half_life; h *= 2) means_.push_back({h});
  }

  // `mean` over n samples that were seen until time `now` (seconds, never decreasing).
  void add(double mean, double n, double now) {
    if (n <= 0) return;
    const double passed = std::max(0.0, now - now_);
    now_ = std::max(now, now_);
    for (Ageing& m : means_) m.add(mean, n, passed);
    // The variance of one sample, from two means after each other: drift hardly touches their difference.
    if (last_n_ > 0) {
      const double off = mean - last_mean_, keep = std::exp2(-passed / means_.back().half_life);
      spread_ = spread_ * keep + off * off / (1 / n + 1 / last_n_);
      spread_weight_ = spread_weight_ * keep + 1;
    }
    last_mean_ = mean;
    last_n_ = n;
  }
  bool known() const { return last_n_ > 0; }
  double value() const { return known() ? chosen().mean() : 0; }
  // Standard error of value(), relative to it; 1 while too little was seen to say.
  double error() const {
    if (spread_weight_ <= 0 || value() <= 0) return 1;
    return std::min(1.0, error_of(chosen()) / value());
  }

 private:
  struct Ageing {
    double half_life, weight = 0, squares = 0, sum = 0;
    void add(double mean, double n, double passed) {
      const double keep = std::exp2(-passed / half_life);
      weight = weight * keep + n;
      squares = squares * keep * keep + n;  // n samples of weight 1
      sum = sum * keep + n * mean;
    }
    double mean() const { return sum / weight; }
    double effective() const { return weight * weight / squares; }
  };
  double error_of(const Ageing& a) const {
    return spread_weight_ > 0 ? std::sqrt(spread_ / spread_weight_ / a.effective()) : a.mean();
  }
  const Ageing& chosen() const {
    constexpr double kBeyondChance = 1.5;  // standard errors of the shorter one
    size_t at = 0;
    for (size_t longer = 1; longer < means_.size(); ++longer) {
      for (size_t k = 0; k < longer; ++k)
        if (std::abs(means_[k].mean() - means_[longer].mean()) > kBeyondChance * error_of(means_[k])) return means_[at];
      at = longer;
    }
    return means_[at];
  }
  std::vector<Ageing> means_;
  double now_ = 0, last_mean_ = 0, last_n_ = 0, spread_ = 0, spread_weight_ = 0;
};

}  // namespace kinora::balance
