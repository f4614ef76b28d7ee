#include "shots/network_detector.hpp"

#include <stdexcept>

#include "shots/network_cuts.hpp"

namespace kinora::video {
namespace {

using transnetv2::kFrameBytes;
using transnetv2::Sequence;

// Copies of the first and of the last frame that go around the video, as in the published pipeline.
constexpr size_t kEdge = 25;

class NetworkDetector final : public ShotDetector {
 public:
  explicit NetworkDetector(const DetectorOptions& options)
      : ShotDetector(options.name),
        network_(options.network),
        sequence_(network_ ? *network_ : throw std::invalid_argument("transnetv2 without its network")),
        decided_(options.threshold) {}

  bool wants_thumbnails() const override { return true; }
  void require(MeterOptions&) const override {}
  void see(const uint8_t* thumbnail) override {
    for (size_t i = 0; last_.empty() && i < kEdge; ++i) sequence_.push(thumbnail);
    last_.assign(thumbnail, thumbnail + kFrameBytes);
    sequence_.push(thumbnail);
    decided_.see(thumbnail);
    ++frames_;
  }
  void push(const FrameMeasures&, const Moment&) override { take_answers(); }
  void finish(const Moment&) override {
    for (size_t i = 0; i < kEdge; ++i) sequence_.push(last_.data());
    sequence_.finish();
    take_answers();
    take_cuts();
  }

  const std::vector<Range>& transitions() const override { return decided_.transitions(); }
  const std::vector<float>* parts() const override { return &parts_; }
  int64_t settled() const override { return decided_.settled(); }

 private:
  void take_answers() {
    while (scores_.size() < frames_ && scores_.size() + kEdge < sequence_.change().size()) {
      const size_t at = scores_.size() + kEdge;
      scores_.push_back(static_cast<double>(sequence_.change()[at]));
      parts_.push_back(sequence_.part()[at]);
      decided_.push(sequence_.change()[at], sequence_.part()[at]);
    }
    take_cuts();
  }
  void take_cuts() {
    cuts_.insert(cuts_.end(), decided_.cuts().begin() + static_cast<ptrdiff_t>(cuts_.size()),
                 decided_.cuts().end());
  }

  std::shared_ptr<const transnetv2::Network> network_;
  Sequence sequence_;
  NetworkCuts decided_;
  std::vector<uint8_t> last_;
  std::vector<float> parts_;
  size_t frames_ = 0;
};

}  // namespace

std::unique_ptr<ShotDetector> make_network_detector(const DetectorOptions& options) {
  return std::make_unique<NetworkDetector>(options);
}

}  // namespace kinora::video
