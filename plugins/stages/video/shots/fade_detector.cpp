// Detects fades: a video fades out when it falls below the threshold (floor) or rises above it (ceiling), and fades in when
// it comes back. The cut is placed between the two, at the fraction that fade_bias gives.
//
// PySceneDetect measures this interval in frames of the nominal rate. At a variable rate the cut here is the first frame
// presented at or after its point; at a constant rate both are the same frame.
#include <cmath>
#include <vector>

#include "shots/shot_detector.hpp"

namespace kinora::video {
namespace {

class FadeDetector final : public ShotDetector {
 public:
  FadeDetector(const DetectorOptions& options, double rate)
      : ShotDetector(options.name), options_(options), threshold_(std::trunc(options.threshold)), rate_(rate) {}
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
    const auto at = from + static_cast<int64_t>(
                               std::nearbyint(static_cast<double>(length) * (1.0 + options_.fade_bias) / 2.0));
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

std::unique_ptr<ShotDetector> make_fade_detector(const DetectorOptions& options, double rate) {
  return std::make_unique<FadeDetector>(options, rate);
}

}  // namespace kinora::video
