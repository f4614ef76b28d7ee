// stage/filter.text: share of the picture covered by overlaid text.
#include <algorithm>

#include "filter.hpp"
#include "kinora/plugin.hpp"
#include "text_regions.hpp"

namespace kinora::filters {

class FilterText final : public Stage {
 public:
  // A line of 22 letters, one thirteenth of the height tall, covers 0.045. At 2 frames per second the
  // project's media score 0 to 0.025 unchanged and 0.043 to 0.075 with such a line drawn into them.
  struct Options : ModeOption, ReduceOption {
    double at_most = 0.035;
    int64_t lasting = 3, contrast = 80;
  };
  static void describe(Describe<Options>& d) {
    d.name("filter.text")
        .help("Drops samples with overlaid text: share of the picture that lines of letters cover");
    d.score("filter.text", "Text in the picture", "of the picture");
    describe_mode(d);
    describe_reduce(d);
    d.option("at_most", &Options::at_most).range(0, 1).bound().help("largest share that passes");
    d.option("lasting", &Options::lasting)
        .range(1, 100)
        .unit("frames")
        .help(
            "number of frames over which letters must stay in place; 1: each frame by itself, which "
            "mistakes windows for text");
    d.option("contrast", &Options::contrast)
        .range(1, 254)
        .help("smallest contrast of letters with their background, in levels of 255");
    describe_frames(d);
  }
  explicit FilterText(const Options& o) : options_(o) {}

  void process(Sample in, const Emit& emit, const Run& run) override {
    const Frames frames(in);
    const auto lasting = static_cast<size_t>(std::min(options_.lasting, frames.count()));
    std::vector<double> shares;
    std::vector<cv::Mat> window;
    for (int64_t i = 0; i < frames.count(); ++i) {
      run.check_cancelled();
      if (window.size() == lasting) window.erase(window.begin());
      window.push_back(frames.luma(i));
      if (window.size() == lasting)
        shares.push_back(text_share(lasting_edges(window, static_cast<int>(options_.contrast))));
    }
    judge(std::move(in), emit, "filter.text", reduce(shares, options_.reduce), 0, options_.at_most,
          options_.mode);
  }

 private:
  Options options_;
};

}  // namespace kinora::filters

using kinora::filters::FilterText;
KINORA_COMPONENT(FilterText)
