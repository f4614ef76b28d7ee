// Stages that find the starts of a video's shots: shots.NAME with one detector, equal to PySceneDetect's of
// that name, and shots with any set of detectors.
#include <string>
#include <utility>

#include "kinora/curation.hpp"
#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "media/decoding.hpp"
#include "shots/detector_set.hpp"
#include "shots/network_file.hpp"
#include "shots/shots_pass.hpp"

namespace kinora::video {

struct ShotsOptions {
  int64_t downscale = 0, threads = 1, sample_height = 256;
  double sample_every = 0;
  bool thumbnails = false;
  std::string decoder = "cpu";
};

template <class Options>
void describe_shots(Describe<Options>& d) {
  d.option("downscale", &ShotsOptions::downscale)
      .range(0, 1024)
      .help(
          "factor by which each side is reduced; 1: full size; 0: the longer side becomes 256 pixels, as "
          "in PySceneDetect");
  d.option("threads", &ShotsOptions::threads)
      .range(1, 64)
      .help(
          "number of decoder threads; from 2 on, another thread compares the frames. The result is the same");
  describe_decoder(d, &ShotsOptions::decoder);
  d.option("sample_every", &ShotsOptions::sample_every)
      .at_least(0)
      .unit("s")
      .help(
          "interval of sampled frames, written as tensor frames for other stages from the same decode; 0: "
          "none");
  d.option("sample_height", &ShotsOptions::sample_height)
      .range(0, 16384)
      .unit("pixels")
      .help(
          "height of the sampled frames; 0: unchanged, 6 MB each for a video of 1920 x 1080. Image "
          "models take 224 to 448");
  d.option("thumbnails", &ShotsOptions::thumbnails)
      .help("write every frame at 48 x 27 as tensor thumbnails, for TransNetV2");
  d.output("frames", "[T, H, W, 3]", "uint8", "sampled frames; fact frames_at has their seconds",
           {.when = "sample_every"});
  d.output("thumbnails", "[T, 27, 48, 3]", "uint8", "every frame at 48 x 27", {.when = "thumbnails"});
  d.output("times_us", "[T]", "int64", "time of every frame since the first one", {.when = "thumbnails"});
}

// A stage that finds the shots of one video per call.
class ShotsStage : public Stage {
 public:
  kinora_resources resources() const override { return reads_media(plan_.threads, plan_.decoder); }
  void start(const Run&) override {
    check_decoder(plan_.decoder);
    load_network(plan_);
  }
  void process(Sample in, const Emit& emit, const Run& run) override {
    if (is_picture(in)) return emit(std::move(in));
    const Media media = open_media(in);
    media_call([&] { find_shots(in, media, plan_, run); });
    emit(std::move(in));
  }

 protected:
  ShotsStage(const ShotsOptions& o, ShotsPlan plan) : plan_(std::move(plan)) {
    plan_.downscale = o.downscale;
    plan_.threads = o.threads;
    plan_.decoder = o.decoder;
    plan_.sample_every = o.sample_every;
    plan_.sample_height = o.sample_height;
    plan_.thumbnails = o.thumbnails;
    check_network(plan_);
  }

 private:
  ShotsPlan plan_;
};

namespace {

// Weights of the content score and the dilation of its edges.
struct ContentOptions : ShotsOptions {
  double hue = 1.0, saturation = 1.0, value = 1.0, edges = 0.0;
  bool luma_only = false;
  int64_t kernel_size = 0;
};

template <class Options>
void describe_weights(Describe<Options>& d) {
  d.option("hue", &ContentOptions::hue).at_least(0).help("weight of hue in the score");
  d.option("saturation", &ContentOptions::saturation).at_least(0).help("weight of saturation in the score");
  d.option("value", &ContentOptions::value).at_least(0).help("weight of value in the score");
  d.option("edges", &ContentOptions::edges)
      .at_least(0)
      .help("weight of edges in the score; 0: edges are not computed");
  d.option("luma_only", &ContentOptions::luma_only)
      .help("use the value alone as the score, whatever the weights");
  d.option("kernel_size", &ContentOptions::kernel_size)
      .range(0, 255)
      .unit("pixels")
      .help("width to which edges are dilated, an odd number from 3 on; 0: chosen by the frame's size");
}

template <class Options>
void describe_min_length(Describe<Options>& d, const char* help) {
  d.option("min_length", &Options::min_length).at_least(0).unit("frames").help(help);
}

void check_weights(const ContentWeights& w, int64_t kernel) {
  if (w.hue + w.saturation + w.value + w.edges <= 0)
    throw Error(KINORA_ERROR_INVALID,
                "all weights of the content score are 0; raise hue, saturation, value or edges");
  if (kernel != 0 && (kernel < 3 || kernel % 2 == 0))
    throw Error(KINORA_ERROR_INVALID,
                "kernel_size = " + std::to_string(kernel) + "; give an odd number from 3 on, or 0");
}

ContentWeights weights_of(const ContentOptions& o) {
  const ContentWeights weights =
      o.luma_only ? ContentWeights{0, 0, 1, 0} : ContentWeights{o.hue, o.saturation, o.value, o.edges};
  check_weights(weights, o.kernel_size);
  return weights;
}

ShotsPlan alone(const DetectorOptions& detector) {
  ShotsPlan plan;
  plan.detectors = {detector};
  plan.decide = detector.name;
  return plan;
}

}  // namespace

class ShotsContent final : public ShotsStage {
 public:
  struct Options : ContentOptions {
    double threshold = 27.0;
    int64_t min_length = 15;
    std::string filter = "merge";
  };
  static void describe(Describe<Options>& d) {
    d.name("shots.content")
        .help(
            "Finds cuts by the change of hue, saturation and value; equals PySceneDetect's ContentDetector");
    d.option("threshold", &Options::threshold).range(0, 255).help("smallest score of a cut");
    describe_min_length(d, "shortest shot; cuts that follow sooner are merged or suppressed");
    d.option("filter", &Options::filter)
        .choices({"merge", "suppress"})
        .help("cut that remains of several that are too close: the last (merge) or the first (suppress)");
    describe_weights(d);
    describe_shots(d);
  }
  explicit ShotsContent(const Options& o) : ShotsStage(o, plan(o)) {}

 private:
  static ShotsPlan plan(const Options& o) {
    DetectorOptions detector;
    detector.threshold = o.threshold;
    detector.min_length = o.min_length;
    detector.filter = o.filter;
    detector.weights = weights_of(o);
    ShotsPlan out = alone(detector);
    out.edge_kernel = o.kernel_size;
    return out;
  }
};

class ShotsAdaptive final : public ShotsStage {
 public:
  struct Options : ContentOptions {
    double threshold = 3.0, min_content = 15.0;
    int64_t min_length = 15, window = 2;
  };
  static void describe(Describe<Options>& d) {
    d.name("shots.adaptive")
        .help(
            "Finds cuts by the content score relative to the scores around it; equals PySceneDetect's "
            "AdaptiveDetector");
    d.option("threshold", &Options::threshold).range(0, 255).help("smallest ratio of a cut");
    describe_min_length(d, "shortest shot");
    d.option("window", &Options::window)
        .range(1, 1000)
        .unit("frames")
        .help("number of frames before and after that the score is compared with");
    d.option("min_content", &Options::min_content).range(0, 255).help("smallest content score of a cut");
    describe_weights(d);
    describe_shots(d);
  }
  explicit ShotsAdaptive(const Options& o) : ShotsStage(o, plan(o)) {}

 private:
  static ShotsPlan plan(const Options& o) {
    DetectorOptions detector;
    detector.name = "adaptive";
    detector.threshold = o.threshold;
    detector.min_length = o.min_length;
    detector.window = o.window;
    detector.min_content = o.min_content;
    detector.weights = weights_of(o);
    ShotsPlan out = alone(detector);
    out.edge_kernel = o.kernel_size;
    return out;
  }
};

class ShotsHistogram final : public ShotsStage {
 public:
  struct Options : ShotsOptions {
    double threshold = 0.2;
    int64_t min_length = 15, bins = 128;
  };
  static void describe(Describe<Options>& d) {
    d.name("shots.histogram")
        .help("Finds cuts by the correlation of luma histograms; equals PySceneDetect's HistogramDetector");
    d.option("threshold", &Options::threshold)
        .range(0, 1)
        .help("smallest drop of the correlation below 1 at a cut");
    describe_min_length(d, "shortest shot");
    d.option("bins", &Options::bins).range(2, 256).help("number of histogram bins");
    describe_shots(d);
  }
  explicit ShotsHistogram(const Options& o) : ShotsStage(o, plan(o)) {}

 private:
  static ShotsPlan plan(const Options& o) {
    DetectorOptions detector;
    detector.name = "histogram";
    detector.threshold = o.threshold;
    detector.min_length = o.min_length;
    detector.bins = o.bins;
    return alone(detector);
  }
};

class ShotsHash final : public ShotsStage {
 public:
  struct Options : ShotsOptions {
    double threshold = 0.35;
    int64_t min_length = 15, size = 8, lowpass = 2;
  };
  static void describe(Describe<Options>& d) {
    d.name("shots.hash")
        .help("Finds cuts by the change of a perceptual hash; equals PySceneDetect's HashDetector");
    d.option("threshold", &Options::threshold).range(0, 1).help("smallest share of changed bits at a cut");
    describe_min_length(d, "shortest shot");
    d.option("size", &Options::size).range(2, 64).help("bits per side of the hash");
    d.option("lowpass", &Options::lowpass)
        .range(1, 8)
        .help("side of the scaled frame divided by size; size times lowpass must be even");
    describe_shots(d);
  }
  explicit ShotsHash(const Options& o) : ShotsStage(o, plan(o)) {}

 private:
  static ShotsPlan plan(const Options& o) {
    if (o.size * o.lowpass % 2 != 0)
      throw Error(KINORA_ERROR_INVALID, "size " + std::to_string(o.size) + " times lowpass " +
                                            std::to_string(o.lowpass) + " is odd; make one of them even");
    DetectorOptions detector;
    detector.name = "hash";
    detector.threshold = o.threshold;
    detector.min_length = o.min_length;
    detector.size = o.size;
    detector.lowpass = o.lowpass;
    return alone(detector);
  }
};

class ShotsThreshold final : public ShotsStage {
 public:
  struct Options : ShotsOptions {
    double threshold = 12.0, fade_bias = 0.0;
    int64_t min_length = 15;
    bool final_cut = false;
    std::string fade = "floor";
  };
  static void describe(Describe<Options>& d) {
    d.name("shots.threshold").help("Finds fades to and from black; equals PySceneDetect's ThresholdDetector");
    d.option("threshold", &Options::threshold)
        .range(0, 255)
        .help("mean brightness; only its whole part counts");
    describe_min_length(d, "shortest shot");
    d.option("fade_bias", &Options::fade_bias)
        .range(-1, 1)
        .help("position of the cut within the dark part: -1 at its start, 0 in the middle, 1 at its end");
    d.option("final_cut", &Options::final_cut).help("treat a fade out at the end as a cut");
    d.option("fade", &Options::fade)
        .choices({"floor", "ceiling"})
        .help("direction of fades: below the threshold, or above it");
    describe_shots(d);
  }
  explicit ShotsThreshold(const Options& o) : ShotsStage(o, plan(o)) {}

 private:
  static ShotsPlan plan(const Options& o) {
    DetectorOptions detector;
    detector.name = "threshold";
    detector.threshold = o.threshold;
    detector.min_length = o.min_length;
    detector.fade_bias = o.fade_bias;
    detector.final_cut = o.final_cut;
    detector.fade = o.fade;
    return alone(detector);
  }
};

class ShotsFixed final : public ShotsStage {
 public:
  struct Options : ShotsOptions {
    double stride = 10.0;
  };
  static void describe(Describe<Options>& d) {
    d.name("shots.fixed")
        .help("Cuts at a fixed interval, at the first frame at or after each multiple; ignores the pictures");
    d.option("stride", &Options::stride)
        .above(0)
        .unit("s")
        .help("length of a shot; the rest at the end is a shot too");
    describe_shots(d);
  }
  explicit ShotsFixed(const Options& o) : ShotsStage(o, plan(o)) {}

 private:
  static ShotsPlan plan(const Options& o) {
    DetectorOptions detector;
    detector.name = "fixed";
    detector.stride = o.stride;
    return alone(detector);
  }
};

// stage/shots: finds shots with any set of detectors in one decode.
class Shots final : public ShotsStage {
 public:
  struct Options : ShotsOptions, DetectorSet {};

  static void describe(Describe<Options>& d) {
    d.name("shots").help(
        "Finds cuts by several detectors in one decode; each gives the same cuts as its own stage, "
        "shots.NAME");
    describe_detectors(d, "min_length");
    describe_shots(d);
  }
  explicit Shots(const Options& o) : ShotsStage(o, plan_of(o)) {}
};

}  // namespace kinora::video

using kinora::video::Shots;
using kinora::video::ShotsAdaptive;
using kinora::video::ShotsContent;
using kinora::video::ShotsFixed;
using kinora::video::ShotsHash;
using kinora::video::ShotsHistogram;
using kinora::video::ShotsThreshold;
KINORA_COMPONENT(ShotsContent)
KINORA_COMPONENT(ShotsAdaptive)
KINORA_COMPONENT(ShotsHistogram)
KINORA_COMPONENT(ShotsHash)
KINORA_COMPONENT(ShotsThreshold)
KINORA_COMPONENT(ShotsFixed)
KINORA_COMPONENT(Shots)
