// stage/filter.letterbox: finds black bars; records the picture inside them, or drops samples that have them.
#include "bars.hpp"
#include "filter.hpp"
#include "kinora/plugin.hpp"

namespace kinora::filters {

using nlohmann::json;

class FilterLetterbox final : public Stage {
 public:
  struct Options {
    std::string mode = "crop";
    double at_most =
        0.02;  // share of the height: 7 lines of 360, more than the ragged edge of an old transfer
  };
  static void describe(Describe<Options>& d) {
    d.name("filter.letterbox")
        .help("Finds black bars around the picture; the score is the share of it that they cover");
    d.score("filter.letterbox", "Black bars", "of the picture");
    d.option("mode", &Options::mode)
        .choices({"crop", "on", "filter", "score"})
        .help(
            "treatment of bars: crop (or on) writes the fact crop, in pixels of the upright video; filter "
            "drops the sample; score only records the score");
    d.option("at_most", &Options::at_most)
        .range(0, 1)
        .bound()
        .help("largest share that passes; above it, mode filter drops the sample and mode crop crops it");
    describe_frames(d);
  }
  explicit FilterLetterbox(const Options& o) : options_(o) {
    if (options_.mode == "on") options_.mode = "crop";
  }

  void process(Sample in, const Emit& emit, const Run& run) override {
    const Frames frames(in);
    json facts = json_field(in, "json");
    const cv::Size video = options_.mode == "crop" ? size_of(in, facts) : cv::Size();
    const Bars bars = find_bars(frames.count(), [&](int64_t i) {
      run.check_cancelled();
      return frames.luma(i);
    });
    const double picture = static_cast<double>(frames.width() - bars.left - bars.right) *
                           static_cast<double>(frames.height() - bars.top - bars.bottom);
    const double score = 1 - picture / frames.pixels();
    note_score(facts, "filter.letterbox", score);
    const bool small = score <= options_.at_most;
    if (options_.mode == "crop" && !small) {
      const cv::Rect r = picture_inside(bars, {frames.width(), frames.height()}, video);
      facts["crop"] = {{"x", r.x}, {"y", r.y}, {"width", r.width}, {"height", r.height}};
    }
    leave(std::move(in), std::move(facts), emit, "filter.letterbox", score, 0, options_.at_most,
          options_.mode != "filter");
  }

 private:
  // Size of the upright video; the facts hold the stored size.
  static cv::Size size_of(const Sample& in, const json& facts) {
    const auto number = [&](const char* name) {
      const auto at = facts.find(name);
      const double value = at != facts.end() && at->is_number() ? at->get<double>() : 0;
      return value >= 1 && value <= 1 << 20 ? static_cast<int>(value) : 0;
    };
    const int width = number("width"), height = number("height");
    if (width == 0 || height == 0)
      throw Error(KINORA_ERROR_DATA,
                  "sample '" + std::string(in.key()) +
                      "' has no facts width and height, so a crop has no coordinates; put video.probe "
                      "before filter.letterbox, or set its mode to \"filter\" or \"score\"");
    const auto rotation = facts.find("rotation");
    const bool turned =
        rotation != facts.end() && rotation->is_number() && rotation->get<int64_t>() % 180 != 0;
    return turned ? cv::Size(height, width) : cv::Size(width, height);
  }

  Options options_;
};

}  // namespace kinora::filters

using kinora::filters::FilterLetterbox;
KINORA_COMPONENT(FilterLetterbox)
