// stage/filter.brightness: the mean luma of the frames, too dark or too bright.

#include "filter.hpp"
#include "frames.hpp"
#include "kinora/plugin.hpp"

namespace kinora::filters {

class FilterBrightness final : public Stage {
 public:
  // Night scenes score above 0.05 and snow below 0.9. The bounds drop only samples that show almost nothing, such
  // as a title on black or a washed-out picture; taste is left to the user.
  struct Options : ModeOption, ReduceOption {
    double at_least = 0.04, at_most = 0.95;
  };
  static void describe(Describe<Options>& d) {
    d.name("filter.brightness")
        .help("Drops samples that are too dark or too bright: mean luma, 0 black to 1 white");
    describe_mode(d);
    describe_reduce(d);
    d.option("at_least", &Options::at_least).range(0, 1).bound().help("smallest score that passes");
    d.option("at_most", &Options::at_most).range(0, 1).bound().help("largest score that passes");
    describe_frames(d);
  }
  explicit FilterBrightness(const Options& o) : options_(o) {}

  void process(Sample in, const Emit& emit, const Run& run) override {
    const Frames frames(in);
    std::vector<double> means;
    for (int64_t i = 0; i < frames.count(); ++i) {
      run.check_cancelled();
      means.push_back(cv::mean(frames.luma(i))[0] / 255);
    }
    judge(std::move(in), emit, "filter.brightness", reduce(means, options_.reduce), options_.at_least,
          options_.at_most, options_.mode);
  }

 private:
  Options options_;
};

}  // namespace kinora::filters

using kinora::filters::FilterBrightness;
KINORA_COMPONENT(FilterBrightness)
