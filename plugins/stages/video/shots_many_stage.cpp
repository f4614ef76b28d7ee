// stage/shots: any set of the detectors in one decode.
#include <algorithm>

#include "shots_options.hpp"

namespace kinora::video {

class Shots final : public ShotsStage {
 public:
  struct Options : ShotsOptions {
    std::vector<std::string> detectors{"content", "adaptive"};
    std::string decide = "any", content_filter = "merge", threshold_fade = "floor";
    int64_t tolerance = 0, min_length = 15, adaptive_window = 2, histogram_bins = 256, hash_size = 16, hash_lowpass = 2;
    double content_threshold = 27.0, adaptive_threshold = 3.0, adaptive_min_content = 15.0, histogram_threshold = 0.05,
           hash_threshold = 0.395, threshold_threshold = 12.0, threshold_fade_bias = 0.0, fixed_stride = 10.0;
    bool threshold_final_cut = false;
  };

  static void describe(Describe<Options>& d) {
    d.name("shots").help("Finds cuts by several detectors in one decode; each equals its own stage, shots.NAME");
    d.option("detectors", &Options::detectors).help("of content, adaptive, histogram, hash, threshold, fixed");
    d.option("decide", &Options::decide).help("whose cuts count: any, all, or one of the detectors");
    d.option("tolerance", &Options::tolerance)
        .range(0, 1000)
        .unit("frames")
        .help("of any and all: cuts this near are one, where the detector that is listed first has it");
    d.option("min_length", &Options::min_length).at_least(0).unit("frames").help("shortest shot of every detector");
    d.option("content_threshold", &Options::content_threshold).range(0, 255).help("see shots.content");
    d.option("content_filter", &Options::content_filter).choices({"merge", "suppress"}).help("see shots.content");
    d.option("adaptive_threshold", &Options::adaptive_threshold).range(0, 255).help("see shots.adaptive");
    d.option("adaptive_window", &Options::adaptive_window).range(1, 1000).unit("frames").help("see shots.adaptive");
    d.option("adaptive_min_content", &Options::adaptive_min_content).range(0, 255).help("see shots.adaptive");
    d.option("histogram_threshold", &Options::histogram_threshold).range(0, 1).help("see shots.histogram");
    d.option("histogram_bins", &Options::histogram_bins).range(2, 256).help("see shots.histogram");
    d.option("hash_threshold", &Options::hash_threshold).range(0, 1).help("see shots.hash");
    d.option("hash_size", &Options::hash_size).range(2, 64).help("see shots.hash");
    d.option("hash_lowpass", &Options::hash_lowpass).range(1, 8).help("see shots.hash");
    d.option("threshold_threshold", &Options::threshold_threshold).range(0, 255).help("see shots.threshold");
    d.option("threshold_fade_bias", &Options::threshold_fade_bias).range(-1, 1).help("see shots.threshold");
    d.option("threshold_final_cut", &Options::threshold_final_cut).help("see shots.threshold");
    d.option("threshold_fade", &Options::threshold_fade).choices({"floor", "ceiling"}).help("see shots.threshold");
    d.option("fixed_stride", &Options::fixed_stride).above(0).unit("s").help("see shots.fixed");
    describe_shots(d);
  }
  explicit Shots(const Options& o) : ShotsStage(o, plan(o)) {}

 private:
  static DetectorOptions one(const Options& o, const std::string& name) {
    DetectorOptions out;
    out.name = name;
    out.min_length = o.min_length;
    out.filter = o.content_filter;
    out.window = o.adaptive_window;
    out.min_content = o.adaptive_min_content;
    out.bins = o.histogram_bins;
    out.size = o.hash_size;
    out.lowpass = o.hash_lowpass;
    out.fade_bias = o.threshold_fade_bias;
    out.final_cut = o.threshold_final_cut;
    out.fade = o.threshold_fade;
    out.stride = o.fixed_stride;
    out.threshold = name == "content"     ? o.content_threshold
                    : name == "adaptive"  ? o.adaptive_threshold
                    : name == "histogram" ? o.histogram_threshold
                    : name == "hash"      ? o.hash_threshold
                                          : o.threshold_threshold;
    return out;
  }

  static ShotsPlan plan(const Options& o) {
    const auto known = [&](const std::vector<std::string>& names, const std::string& name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    const auto refuse = [](const std::string& what) { throw Error(KINORA_INVALID, what); };
    if (o.detectors.empty()) refuse("detectors is empty; name one of content, adaptive, histogram, hash, threshold, fixed");
    ShotsPlan out;
    for (const auto& name : o.detectors) {
      if (!known(detector_names(), name))
        refuse("detectors: there is no '" + name + "'; the names are content, adaptive, histogram, hash, threshold, fixed");
      if (std::count(o.detectors.begin(), o.detectors.end(), name) > 1) refuse("detectors: '" + name + "' is there twice");
      out.detectors.push_back(one(o, name));
    }
    if (o.decide != "any" && o.decide != "all" && !known(o.detectors, o.decide))
      refuse("decide = '" + o.decide + "' is not among detectors; give any, all or one of them");
    if (known(o.detectors, "hash") && o.hash_size * o.hash_lowpass % 2 != 0)
      refuse("hash_size times hash_lowpass is odd; make one of them even");
    out.decide = o.decide;
    out.tolerance = o.tolerance;
    return out;
  }
};

}  // namespace kinora::video

using kinora::video::Shots;
KINORA_COMPONENT(Shots)
