// stage/filter.black: the share of frames that are black, by the definition of ffmpeg's blackdetect.
#include "filter.hpp"
#include "frames.hpp"
#include "kinora/plugin.hpp"

namespace kinora::filters {

class FilterBlack final : public Stage {
 public:
  // pixel and picture are blackdetect's pixel_black_th and picture_black_ratio_th. A clip may begin or end with
  // a fade, but one that is black for a third of its length shows too little.
  struct Options : ModeOption {
    double pixel = 0.1, picture = 0.98, at_most = 0.33;
  };
  static void describe(Describe<Options>& d) {
    d.name("filter.black")
        .help(
            "Drops samples that are black too long: share of black frames, as measured by ffmpeg's "
            "blackdetect");
    describe_mode(d);
    d.option("pixel", &Options::pixel).range(0, 1).help("largest luma of a black pixel");
    d.option("picture", &Options::picture)
        .range(0, 1)
        .help("smallest share of black pixels in a black frame");
    d.option("at_most", &Options::at_most).range(0, 1).bound().help("largest share of black frames that passes");
    describe_frames(d);
  }
  explicit FilterBlack(const Options& o) : options_(o) {}

  void process(Sample in, const Emit& emit, const Run& run) override {
    const Frames frames(in);
    const double highest = static_cast<int>(options_.pixel * 255);  // blackdetect's limit, in full range
    int64_t black = 0;
    for (int64_t i = 0; i < frames.count(); ++i) {
      run.check_cancelled();
      const int dark = cv::countNonZero(frames.luma(i) <= highest);
      black += dark >= options_.picture * frames.pixels();
    }
    judge(std::move(in), emit, "filter.black",
          static_cast<double>(black) / static_cast<double>(frames.count()), 0, options_.at_most,
          options_.mode);
  }

 private:
  Options options_;
};

}  // namespace kinora::filters

using kinora::filters::FilterBlack;
KINORA_COMPONENT(FilterBlack)
