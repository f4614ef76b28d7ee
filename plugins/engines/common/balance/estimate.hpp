// A measured quantity that ages: a measurement loses half of its weight per half-life. The candidates are
// means with several half-lives, and straight lines through the measurements, which do not lag behind a
// drift. The estimate is the most certain candidate that agrees with all less certain ones within chance
// (Lepski's rule), so it follows a change within seconds and hardly follows noise.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace kinora::balance {

class Estimate {
 public:
  // Shortest and longest half-life in seconds; those between double.
  explicit Estimate(double half_life = 1, double long_half_life = 16) {
    for (double h = half_life; h <= long_half_life; h *= 2) means_.push_back({h});
  }

  // `mean` of n samples that were measured until time `now` (seconds, never decreasing).
  void add(double mean, double n, double now) {
    if (n <= 0) return;
    const double passed = std::max(0.0, now - now_);
    now_ = std::max(now, now_);
    for (Ageing& m : means_) m.add(mean, n, passed);
    // The variance of one sample, from two consecutive means: drift hardly affects their difference.
    if (last_n_ > 0) {
      const double off = mean - last_mean_, keep = std::exp2(-passed / means_.back().half_life);
      spread_ = spread_ * keep + off * off / (1 / n + 1 / last_n_);
      spread_weight_ = spread_weight_ * keep + 1;
    }
    last_mean_ = mean;
    last_n_ = n;
    in_hand_ = 0;
  }
  // A sample in progress has already taken this long: a lower bound until a sample ends and gives a time.
  void at_least(double seconds) { in_hand_ = std::max(in_hand_, seconds); }
  bool known() const { return last_n_ > 0 || in_hand_ > 0; }
  double value() const { return std::max(in_hand_, last_n_ > 0 ? chosen().value : 0); }
  // Standard error of value(), relative to it; 1 if too few samples are known, 0 if the lower bound of
  // at_least() applies.
  double error() const {
    if (in_hand_ > 0 && in_hand_ >= value()) return 0;
    if (spread_weight_ <= 0 || value() <= 0) return 1;
    return std::min(1.0, chosen().error / value());
  }

 private:
  struct Answer {
    double value, error;
  };
  // Weighted sums over samples, of the powers of their time (seconds relative to now, so at most 0) and of
  // their values.
  struct Ageing {
    double half_life;
    double w0 = 0, w1 = 0, w2 = 0, y0 = 0, y1 = 0;
    double q0 = 0, q1 = 0, q2 = 0;  // sums of squared weights

    void add(double mean, double n, double passed) {
      const double keep = std::exp2(-passed / half_life);
      w2 = keep * (w2 - 2 * passed * w1 + passed * passed * w0);
      w1 = keep * (w1 - passed * w0);
      w0 = keep * w0 + n;
      y1 = keep * (y1 - passed * y0);
      y0 = keep * y0 + n * mean;
      q2 = keep * keep * (q2 - 2 * passed * q1 + passed * passed * q0);
      q1 = keep * keep * (q1 - passed * q0);
      q0 = keep * keep * q0 + n;
    }
    // sigma: standard deviation of one sample.
    Answer mean(double sigma) const { return {y0 / w0, sigma * std::sqrt(q0) / w0}; }
    // The least-squares line, at the current time.
    Answer line(double sigma) const {
      const double d = w0 * w2 - w1 * w1;
      if (d <= 1e-9 * w0 * w2) return {0, std::numeric_limits<double>::infinity()};
      return {(w2 * y0 - w1 * y1) / d,
              sigma * std::sqrt(std::max(0.0, w2 * w2 * q0 - 2 * w1 * w2 * q1 + w1 * w1 * q2)) / d};
    }
  };
  Answer chosen() const {
    constexpr double kBeyondChance = 2.5;  // standard errors of the less certain candidate
    if (spread_weight_ <= 0) return {means_.back().mean(0).value, means_.back().mean(0).value};
    const double sigma = std::sqrt(spread_ / spread_weight_);
    std::vector<Answer> answers;
    for (const Ageing& m : means_) {
      answers.push_back(m.mean(sigma));
      if (const Answer line = m.line(sigma); line.value > 0 && std::isfinite(line.error))
        answers.push_back(line);
    }
    std::stable_sort(answers.begin(), answers.end(),
                     [](const Answer& a, const Answer& b) { return a.error > b.error; });
    size_t at = 0;
    for (size_t k = 1; k < answers.size(); ++k)
      if (std::all_of(answers.begin(), answers.begin() + static_cast<std::ptrdiff_t>(k),
                      [&](const Answer& less) {
                        return std::abs(less.value - answers[k].value) <= kBeyondChance * less.error;
                      }))
        at = k;
    return answers[at];
  }
  std::vector<Ageing> means_;
  double now_ = 0, last_mean_ = 0, last_n_ = 0, spread_ = 0, spread_weight_ = 0, in_hand_ = 0;
};

}  // namespace kinora::balance
