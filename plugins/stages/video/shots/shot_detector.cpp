// The histogram and hash detectors, which compare neighbouring frames and apply a minimum length, and the fixed detector,
// which uses only the clock.
#include "shots/shot_detector.hpp"

#include <algorithm>
#include <stdexcept>

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
      : JumpDetector(options, rate), bins_(options.bins), least_(std::clamp(1.0 - options.threshold, 0.0, 1.0)) {}
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
      : JumpDetector(options, rate), size_(options.size), lowpass_(options.lowpass), threshold_(options.threshold) {}
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
  explicit FixedDetector(const DetectorOptions& options) : ShotDetector(options.name), strides_(options.stride, 1) {}
  void require(MeterOptions&) const override {}
  void push(const FrameMeasures&, const Moment& now) override {
    if (strides_.due(now.microseconds)) cuts_.push_back(now.frame);
  }

 private:
  EvenTimes strides_;
};

}  // namespace

const std::vector<std::string>& detector_names() {
  static const std::vector<std::string> names{"content", "adaptive", "histogram", "hash", "threshold", "fixed"};
  return names;
}

std::unique_ptr<ShotDetector> make_detector(const DetectorOptions& options, double rate) {
  if (options.name == "content" || options.name == "adaptive") return make_content_detector(options, rate);
  if (options.name == "histogram") return std::make_unique<HistogramDetector>(options, rate);
  if (options.name == "hash") return std::make_unique<HashDetector>(options, rate);
  if (options.name == "threshold") return make_fade_detector(options, rate);
  if (options.name == "fixed") return std::make_unique<FixedDetector>(options);
  throw std::invalid_argument("unknown detector '" + options.name + "'");
}

}  // namespace kinora::video
