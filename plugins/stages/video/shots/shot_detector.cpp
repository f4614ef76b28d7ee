// The detectors: histogram and hash compare neighbouring frames and apply a minimum length, fixed uses only
// the clock, content and adaptive use the content score, threshold finds fades.
#include "shots/shot_detector.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <stdexcept>
#include <vector>

#include "shots/flash_filter.hpp"
#include "shots/network_detector.hpp"

namespace kinora::video {
namespace {

// A frame beyond the threshold is a cut if it comes min_length frames after the last cut or the first frame.
class JumpDetector : public ShotDetector {
 public:
  JumpDetector(const DetectorOptions& options, double rate)
      : ShotDetector(options.name), min_length_(options.min_length), rate_(rate) {}

 protected:
  void take(double score, bool beyond, const Moment& now) {
    if (scores_.empty()) last_cut_ = now;
    const bool first = scores_.empty();
    scores_.push_back(score);
    if (first || !beyond || nominal_frames_between(last_cut_, now, rate_) < min_length_) return;
    cuts_.push_back(now.frame);
    last_cut_ = now;
  }

 private:
  int64_t min_length_;
  double rate_;
  Moment last_cut_;
};

class HistogramDetector final : public JumpDetector {
 public:
  HistogramDetector(const DetectorOptions& options, double rate)
      : JumpDetector(options, rate),
        bins_(options.bins),
        least_(std::clamp(1.0 - options.threshold, 0.0, 1.0)) {}
  void require(MeterOptions& needs) const override { needs.bins = static_cast<int>(bins_); }
  void push(const FrameMeasures& measures, const Moment& now) override {
    take(measures.correlation, measures.correlation <= least_, now);
  }

 private:
  int64_t bins_;
  double least_;
};

class HashDetector final : public JumpDetector {
 public:
  HashDetector(const DetectorOptions& options, double rate)
      : JumpDetector(options, rate),
        size_(options.size),
        lowpass_(options.lowpass),
        threshold_(options.threshold) {}
  void require(MeterOptions& needs) const override {
    needs.hash_size = static_cast<int>(size_);
    needs.hash_lowpass = static_cast<int>(lowpass_);
  }
  void push(const FrameMeasures& measures, const Moment& now) override {
    take(measures.hash_distance, measures.hash_distance >= threshold_, now);
  }

 private:
  int64_t size_, lowpass_;
  double threshold_;
};

// Cuts at the first frame at or after every multiple of the stride.
class FixedDetector final : public ShotDetector {
 public:
  explicit FixedDetector(const DetectorOptions& options)
      : ShotDetector(options.name), strides_(options.stride, 1) {}
  void require(MeterOptions&) const override {}
  void push(const FrameMeasures&, const Moment& now) override {
    if (strides_.due(now.microseconds)) cuts_.push_back(now.frame);
  }

 private:
  EvenTimes strides_;
};

void require_content(const ContentWeights& weights, MeterOptions& needs) {
  needs.hsv = true;
  needs.edges = needs.edges || weights.edges > 0;
}

// PySceneDetect uses edges only if their weight is above 0; an edge difference measured for another detector
// is multiplied by 0 here.
double score_of(const FrameMeasures& measures, const ContentWeights& weights) {
  return content_score(measures.hsv, weights);
}

// Compares the content score with a threshold.
class ContentDetector final : public ShotDetector {
 public:
  ContentDetector(const DetectorOptions& options, double rate)
      : ShotDetector(options.name),
        weights_(options.weights),
        threshold_(options.threshold),
        filter_(options.filter == "merge" ? FlashFilter::Mode::merge : FlashFilter::Mode::suppress,
                options.min_length, rate) {}
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

// Decides about a frame once `window` more have arrived, by the ratio of its content score to the mean of the
// window's other scores.
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

// Detects fades: a video fades out when it falls below the threshold (floor) or rises above it (ceiling), and
// fades in when it comes back. The cut is placed between the two, at the fraction that fade_bias gives.
//
// PySceneDetect measures this interval in frames of the nominal rate. At a variable rate the cut here is the
// first frame presented at or after its point; at a constant rate both are the same frame.
class FadeDetector final : public ShotDetector {
 public:
  FadeDetector(const DetectorOptions& options, double rate)
      : ShotDetector(options.name),
        options_(options),
        threshold_(std::trunc(options.threshold)),
        rate_(rate) {}
  void require(MeterOptions& needs) const override { needs.mean = true; }

  void push(const FrameMeasures& measures, const Moment& now) override {
    const bool out = (measures.mean < threshold_) == (options_.fade == "floor");
    if (scores_.empty()) {
      last_cut_ = faded_ = now;
      out_ = out;
    }
    const bool first = scores_.empty();
    scores_.push_back(measures.mean);
    if (out_) since_out_.push_back(now);
    if (first || out == out_) return;
    if (!out && nominal_frames_between(last_cut_, now, rate_) >= options_.min_length) {
      cuts_.push_back(split(now));
      last_cut_ = now;
    }
    since_out_.clear();
    if (out) since_out_.push_back(now);
    out_ = out;
    faded_ = now;
  }

  void finish(const Moment& last) override {
    if (out_ && options_.final_cut && !scores_.empty() &&
        nominal_frames_between(last_cut_, last, rate_) >= options_.min_length)
      cuts_.push_back(faded_.frame);
  }

 private:
  int64_t split(const Moment& now) const {
    const Moment start;
    const int64_t from = nominal_frames_between(start, faded_, rate_);
    const int64_t length = nominal_frames_between(start, now, rate_) - from;
    const auto at =
        from +
        static_cast<int64_t>(std::nearbyint(static_cast<double>(length) * (1.0 + options_.fade_bias) / 2.0));
    for (const Moment& frame : since_out_)
      if (nominal_frames_between(start, frame, rate_) >= at) return frame.frame;
    return now.frame;
  }

  DetectorOptions options_;
  double threshold_, rate_;
  bool out_ = false;
  Moment last_cut_, faded_;
  std::vector<Moment> since_out_;  // frames of the open fade; at most the whole video
};

}  // namespace

const std::vector<std::string>& detector_names() {
  static const std::vector<std::string> names{"content",   "adaptive",   "histogram", "hash",
                                              "threshold", "transnetv2", "fixed"};
  return names;
}

std::unique_ptr<ShotDetector> make_detector(const DetectorOptions& options, double rate) {
  if (options.name == "content") return std::make_unique<ContentDetector>(options, rate);
  if (options.name == "adaptive") return std::make_unique<AdaptiveDetector>(options, rate);
  if (options.name == "histogram") return std::make_unique<HistogramDetector>(options, rate);
  if (options.name == "hash") return std::make_unique<HashDetector>(options, rate);
  if (options.name == "threshold") return std::make_unique<FadeDetector>(options, rate);
  if (options.name == "transnetv2") return make_network_detector(options);
  if (options.name == "fixed") return std::make_unique<FixedDetector>(options);
  throw std::invalid_argument("unknown detector '" + options.name + "'");
}

}  // namespace kinora::video
