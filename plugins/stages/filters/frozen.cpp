// stage/filter.frozen: the share of frames without motion, by the definition of ffmpeg's freezedetect.
#include "filter.hpp"
#include "frames.hpp"
#include "kinora/plugin.hpp"

namespace kinora::filters {

class FilterFrozen final : public Stage {
 public:
  // noise is freezedetect's (-60 dB). Drawings are often animated on threes, so two of three frames repeat; the
  // bound lets them pass at any sampling rate.
  struct Options : ModeOption {
    double noise = 0.001, at_most = 0.8;
  };
  static void describe(Describe<Options>& d) {
    d.name("filter.frozen")
        .help(
            "Drops stills: share of frames equal to the last differing one, as measured by ffmpeg's "
            "freezedetect");
    describe_mode(d);
    d.option("noise", &Options::noise)
        .range(0, 1)
        .help("largest mean absolute difference between equal frames");
    d.option("at_most", &Options::at_most).range(0, 1).bound().help("largest share of frozen frames that passes");
    describe_frames(d);
  }
  explicit FilterFrozen(const Options& o) : options_(o) {}

  void process(Sample in, const Emit& emit, const Run& run) override {
    const Frames frames(in);
    const double samples = frames.pixels() * 3;
    int64_t frozen = 0, reference = 0;
    for (int64_t i = 1; i < frames.count(); ++i) {
      run.check_cancelled();
      const double difference = cv::norm(frames.rgb(i), frames.rgb(reference), cv::NORM_L1) / samples / 256;
      // Compares with the frame where the freeze began, not the previous one: a slow drift is motion.
      if (difference <= options_.noise)
        ++frozen;
      else
        reference = i;
    }
    const double share =
        frames.count() > 1 ? static_cast<double>(frozen) / static_cast<double>(frames.count() - 1) : 0;
    judge(std::move(in), emit, "filter.frozen", share, 0, options_.at_most, options_.mode);
  }

 private:
  Options options_;
};

}  // namespace kinora::filters

using kinora::filters::FilterFrozen;
KINORA_COMPONENT(FilterFrozen)
