// The shot detectors: derive the starts of shots from measures of each frame (kernels/cpu/frame_meter.hpp).
// Each but transnetv2, a network (network_detector.hpp), equals the detector of the same name in PySceneDetect
// 0.7.2, score for score and cut for cut, with the same defaults. Decoding and measuring happen elsewhere.
//
// Scores, one per frame: content, the weighted mean difference to the previous frame (0 to 255; 0 for the
// first); adaptive, the ratio of the content score to the mean of its neighbours (0 where the window does not
// fit); histogram, the correlation with the previous frame (1 for the first); hash, the share of bits that
// differ (0 for the first); threshold, the mean of B, G and R; transnetv2, the probability that the shot
// changes after the frame; fixed, none.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/frame_meter.hpp"
#include "media/decoder.hpp"
#include "shots/frame_times.hpp"
#include "shots/transnetv2.hpp"

namespace kinora::video {

// A detector's name and the options of all detectors; each reads its own.
struct DetectorOptions {
  std::string name = "content";  // content, adaptive, histogram, hash, threshold, transnetv2, fixed
  int64_t min_length = 15;       // shortest shot, in frames at the nominal rate; 0: no limit
  double threshold = 27.0;
  ContentWeights weights;         // content, adaptive
  std::string filter = "merge";   // content: merge, suppress
  int64_t window = 2;             // adaptive: frames before and after
  double min_content = 15.0;      // adaptive: smallest content score of a cut
  int64_t bins = 128;             // histogram
  int64_t size = 8, lowpass = 2;  // hash
  double fade_bias = 0.0;         // threshold: -1 cuts where a fade to black ends, 1 where the next begins
  bool final_cut = false;         // threshold: a fade out at the end is a cut
  std::string fade = "floor";     // threshold: floor, ceiling
  double stride = 10.0;           // fixed: seconds
  std::shared_ptr<const transnetv2::Network> network;  // transnetv2; must be set when frames come
};

// [owner-thread] Frames in order, then finish().
class ShotDetector {
 public:
  virtual ~ShotDetector() = default;

  // Takes the next frame.
  virtual void push(const FrameMeasures& measures, const Moment& now) = 0;
  // Ends the video; `last` is its last frame.
  virtual void finish(const Moment& last) { static_cast<void>(last); }
  // Takes the next frame's thumbnail, [27, 48, 3], before push(), if it wants them.
  virtual void see(const uint8_t* thumbnail) { static_cast<void>(thumbnail); }
  virtual bool wants_thumbnails() const { return false; }
  // Adds the measures that the detector needs.
  virtual void require(MeterOptions& needs) const = 0;

  const std::string& name() const { return name_; }
  // First frames of all shots but the first, ascending and unique.
  const std::vector<int64_t>& cuts() const { return cuts_; }
  const std::vector<double>& scores() const { return scores_; }
  // transnetv2: frames that belong to no shot, around some of the cuts; the probabilities that a frame is one;
  // the frame before which both are known.
  virtual const std::vector<Range>& transitions() const {
    static const std::vector<Range> none;
    return none;
  }
  virtual const std::vector<float>* parts() const { return nullptr; }
  virtual int64_t settled() const { return 0; }

 protected:
  explicit ShotDetector(std::string name) : name_(std::move(name)) {}
  std::vector<int64_t> cuts_;
  std::vector<double> scores_;

 private:
  std::string name_;
};

// rate: nominal_frame_rate() of the video. std::invalid_argument for an unknown name.
std::unique_ptr<ShotDetector> make_detector(const DetectorOptions& options, double rate);

// Names of all detectors.
const std::vector<std::string>& detector_names();

}  // namespace kinora::video
