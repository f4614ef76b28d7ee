// stage/filter.flow: amount of motion, by optical flow between neighbouring frames.
#include <algorithm>
#include <cmath>
#include <limits>

#include <opencv2/imgproc.hpp>

#include "filter.hpp"
#include "flow.hpp"
#include "kinora/plugin.hpp"

namespace kinora::filters {

using nlohmann::json;

class FilterFlow final : public Stage {
 public:
  // The project's media score 0.003 (a toy turned by hand in front of a still background) to 0.03 and more; a
  // still scores 0.
  struct Options : ModeOption, ReduceOption {
    double at_least = 0.002, p10_at_least = 0, at_most = 1e300, fps = 0;
    int64_t height = 144;
  };
  static void describe(Describe<Options>& d) {
    d.name("filter.flow")
        .help("Drops samples with hardly any motion: optical flow, in fractions of the diagonal per second");
    d.score("filter.flow", "Optical flow", "diagonals/s");
    d.score("filter.flow.p10", "Flow of the stillest tenth", "diagonals/s");
    describe_mode(d);
    describe_reduce(d);
    d.option("at_least", &Options::at_least)
        .at_least(0)
        .bound()
        .help("smallest mean over the picture that passes");
    d.option("at_most", &Options::at_most)
        .at_least(0)
        .bound()
        .help("largest mean over the picture that passes; default: no limit");
    d.option("p10_at_least", &Options::p10_at_least)
        .at_least(0)
        .bound()
        .help(
            "smallest 10th percentile that passes, rule filter.flow.p10; a value above 0 drops a locked "
            "camera");
    d.option("height", &Options::height)
        .range(FlowMeter::kSmallest, 16384)
        .unit("pixels")
        .help("largest height at which flow is measured; taller frames are scaled down first");
    d.option("fps", &Options::fps)
        .at_least(0)
        .help("rate of the frames if no fact frames_at gives their times; 0: an error");
    describe_frames(d);
  }
  explicit FilterFlow(const Options& o) : options_(o) {}

  void process(Sample in, const Emit& emit, const Run& run) override {
    const Frames frames(in);
    json facts = json_field(in, "json");
    std::vector<double> means{}, p10s{};
    measure(frames, times_of(in, facts, frames.count()), run, means, p10s);
    const bool still = means.empty();  // a single frame has no motion
    const double mean = still ? 0 : reduce(means, options_.reduce),
                 p10 = still ? 0 : reduce(p10s, options_.reduce);
    note_score(facts, "filter.flow", mean);
    note_score(facts, "filter.flow.p10", p10);
    const bool score_only = options_.mode == "score";
    if (score_only || (mean >= options_.at_least && mean <= options_.at_most))
      return leave(std::move(in), std::move(facts), emit, "filter.flow.p10", p10, options_.p10_at_least,
                   std::numeric_limits<double>::infinity(), score_only);
    leave(std::move(in), std::move(facts), emit, "filter.flow", mean, options_.at_least, options_.at_most,
          false);
  }

 private:
  void measure(const Frames& frames, const std::vector<double>& times, const Run& run,
               std::vector<double>& means, std::vector<double>& p10s) {
    cv::Mat before = small(frames, 0), after;
    for (int64_t i = 1; i < frames.count(); ++i) {
      run.check_cancelled();
      after = small(frames, i);
      const double seconds = times[static_cast<size_t>(i)] - times[static_cast<size_t>(i - 1)];
      const Flow flow = meter_.between(before, after);
      means.push_back(flow.mean / seconds);
      p10s.push_back(flow.p10 / seconds);
      before = after;
    }
  }

  cv::Mat small(const Frames& frames, int64_t i) const {
    const double scale = std::min(1.0, static_cast<double>(options_.height) / frames.height());
    const cv::Size size(static_cast<int>(std::lround(frames.width() * scale)),
                        static_cast<int>(std::lround(frames.height() * scale)));
    if (std::min(size.width, size.height) < FlowMeter::kSmallest)
      throw Error(KINORA_ERROR_DATA, "frames of " + std::to_string(frames.width()) + "x" +
                                         std::to_string(frames.height()) +
                                         " pixels are too small for filter.flow, which needs " +
                                         std::to_string(FlowMeter::kSmallest) +
                                         " per side; set a larger sample_height, or height "
                                         "of stage/video.read or of this stage");
    cv::Mat out = frames.luma(i);
    if (size != out.size()) cv::resize(out, out, size, 0, 0, cv::INTER_AREA);
    return out;
  }

  // Rising times of the frames in seconds.
  std::vector<double> times_of(const Sample& in, const json& facts, int64_t count) const {
    std::vector<double> out;
    const auto at = facts.find("frames_at");
    if (at != facts.end() && at->is_array())
      for (const auto& t : *at)
        out.push_back(t.is_number() ? t.get<double>() : std::numeric_limits<double>::quiet_NaN());
    else if (options_.fps > 0)
      for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<double>(i) / options_.fps);
    else
      throw Error(KINORA_ERROR_DATA,
                  "sample '" + std::string(in.key()) +
                      "' has no fact frames_at, so its frames have no times; set fps of filter.flow to the "
                      "number of frames read per second");
    bool rising = static_cast<int64_t>(out.size()) == count;
    for (size_t i = 1; i < out.size(); ++i) rising &= out[i] - out[i - 1] > 1e-6;
    if (!rising)
      throw Error(KINORA_ERROR_DATA, "sample '" + std::string(in.key()) + "': its fact frames_at must hold " +
                                         std::to_string(count) + " rising times in seconds, one per frame");
    return out;
  }

  Options options_;
  FlowMeter meter_;
};

}  // namespace kinora::filters

using kinora::filters::FilterFlow;
KINORA_COMPONENT(FilterFlow)
