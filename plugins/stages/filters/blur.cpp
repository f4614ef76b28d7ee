// stage/filter.blur: the variance of the Laplacian, low if nothing in the picture is sharp.
//
// J. L. Pech-Pacheco et al., "Diatom autofocusing in brightfield microscopy: a comparative study", ICPR 2000.
#include <limits>

#include <opencv2/imgproc.hpp>

#include "filter.hpp"
#include "frames.hpp"
#include "kinora/plugin.hpp"

namespace kinora::filters {

class FilterBlur final : public Stage {
 public:
  // At a height of 360 the project's media score from 4 (a soft rendering) and 14 (footage of 1906) to 1,800 (a
  // city at night); a Gaussian blur of 8 pixels brings sharp ones below 1.
  struct Options : ModeOption, ReduceOption {
    double at_least = 3;
  };
  static void describe(Describe<Options>& d) {
    d.name("filter.blur")
        .help("Drops samples that are out of focus: variance of the Laplacian of the luma, 0..255");
    describe_mode(d);
    describe_reduce(d);
    d.option("at_least", &Options::at_least)
        .at_least(0)
        .bound()
        .help(
            "smallest score that passes; the score grows with the frames' size, and the default is for a "
            "height of 360");
    describe_frames(d);
  }
  explicit FilterBlur(const Options& o) : options_(o) {}

  void process(Sample in, const Emit& emit, const Run& run) override {
    const Frames frames(in);
    std::vector<double> variances;
    cv::Mat edges;
    cv::Scalar mean, deviation;
    for (int64_t i = 0; i < frames.count(); ++i) {
      run.check_cancelled();
      cv::Laplacian(frames.luma(i), edges, CV_16S);  // exact: at most 4 x 255
      cv::meanStdDev(edges, mean, deviation);
      variances.push_back(deviation[0] * deviation[0]);
    }
    judge(std::move(in), emit, "filter.blur", reduce(variances, options_.reduce), options_.at_least,
          std::numeric_limits<double>::infinity(), options_.mode);
  }

 private:
  Options options_;
};

}  // namespace kinora::filters

using kinora::filters::FilterBlur;
KINORA_COMPONENT(FilterBlur)
