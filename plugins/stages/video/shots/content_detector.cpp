// The detectors by content score: content compares it with a threshold, adaptive with the scores around it.
#include <algorithm>
#include <cmath>
#include <deque>

#include "shots/flash_filter.hpp"
#include "shots/shot_detector.hpp"

namespace kinora::video {
namespace {

void require_content(const ContentWeights& weights, MeterOptions& needs) {
  needs.hsv = true;
  needs.edges = needs.edges || weights.edges > 0;
}

// PySceneDetect uses edges only if their weight is above 0; an edge difference measured for another detector is
// multiplied by 0 here.
double score_of(const FrameMeasures& measures, const ContentWeights& weights) {
  return content_score(measures.hsv, weights);
}

class ContentDetector final : public ShotDetector {
 public:
  ContentDetector(const DetectorOptions& options, double rate)
      : ShotDetector(options.name),
        weights_(options.weights),
        threshold_(options.threshold),
        filter_(options.filter == "merge" ? FlashFilter::Mode::merge : FlashFilter::Mode::suppress, options.min_length,
                rate) {}
  void require(MeterOptions& needs) const override { require_content(weights_, needs); }
  void push(const FrameMeasures& measures, const Moment& now) override {
    scores_.push_back(score_of(measures, weights_));
    if (const auto cut = filter_.push(scores_.back() >= threshold_, now)) cuts_.push_back(*cut);
  }

 private:
  ContentWeights weights_;
  double threshold_;
  FlashFilter filter_;
};

// Decides about a frame once `window` more have arrived, by the ratio of its content score to the mean of the window's
// other scores.
class AdaptiveDetector final : public ShotDetector {
 public:
  AdaptiveDetector(const DetectorOptions& options, double rate)
      : ShotDetector(options.name), options_(options), rate_(rate) {}
  void require(MeterOptions& needs) const override { require_content(options_.weights, needs); }
  void push(const FrameMeasures& measures, const Moment& now) override {
    if (scores_.empty()) last_cut_ = now;
    scores_.push_back(0);
    window_.push_back({now, score_of(measures, options_.weights)});
    const auto around = static_cast<size_t>(options_.window);
    if (window_.size() < 2 * around + 1) return;
    if (window_.size() > 2 * around + 1) window_.pop_front();
    const auto [target, score] = window_[around];
    const double ratio = ratio_of(around, score);
    scores_[scores_.size() - 1 - around] = ratio;
    if (ratio < options_.threshold || score < options_.min_content ||
        nominal_frames_between(last_cut_, target, rate_) < options_.min_length)
      return;
    cuts_.push_back(target.frame);
    last_cut_ = target;
  }

 private:
  static constexpr double kLargest = 255.0, kStill = 0.00001;

  double ratio_of(size_t target, double score) const {
    double sum = 0;
    for (size_t i = 0; i < window_.size(); ++i)
      if (i != target) sum += window_[i].score;
    const double mean = sum / (2.0 * static_cast<double>(options_.window));
    if (std::abs(mean) >= kStill) return std::min(score / mean, kLargest);
    return score >= options_.min_content ? kLargest : 0.0;
  }

  struct Entry {
    Moment when;
    double score;
  };
  DetectorOptions options_;
  double rate_;
  std::deque<Entry> window_;
  Moment last_cut_;
};

}  // namespace

std::unique_ptr<ShotDetector> make_content_detector(const DetectorOptions& options, double rate) {
  if (options.name == "content") return std::make_unique<ContentDetector>(options, rate);
  return std::make_unique<AdaptiveDetector>(options, rate);
}

}  // namespace kinora::video
