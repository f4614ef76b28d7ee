// Filters by the pixels of the frames: brightness, blur, black frames, frozen frames.
#include <opencv2/imgproc.hpp>

#include "filter.hpp"
#include "kinora/plugin.hpp"

namespace kinora::filters {

// stage/filter.brightness: the mean luma of the frames, too dark or too bright.
class FilterBrightness final : public Stage {
 public:
  // Night scenes score above 0.05 and snow below 0.9. The bounds drop only samples that show almost nothing,
  // such as a title on black or a washed-out picture; taste is left to the user.
  struct Options : ModeOption, ReduceOption {
    double at_least = 0.04, at_most = 0.95;
  };
  static void describe(Describe<Options>& d) {
    d.name("filter.brightness")
        .help("Drops samples that are too dark or too bright: mean luma, 0 black to 1 white");
    d.score("filter.brightness", "Brightness");
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

// stage/filter.blur: the variance of the Laplacian, low if nothing in the picture is sharp.
//
// J. L. Pech-Pacheco et al., "Diatom autofocusing in brightfield microscopy: a comparative study", ICPR 2000.
class FilterBlur final : public Stage {
 public:
  // At a height of 360 the project's media score from 4 (a soft rendering) and 14 (footage of 1906) to 1,800
  // (a city at night); a Gaussian blur of 8 pixels brings sharp ones below 1.
  struct Options : ModeOption, ReduceOption {
    double at_least = 3, at_most = 1e300;  // finite, so that JSON can hold it
  };
  static void describe(Describe<Options>& d) {
    d.name("filter.blur")
        .help("Drops samples that are out of focus: variance of the Laplacian of the luma, 0..255");
    d.score("filter.blur", "Sharpness");
    describe_mode(d);
    describe_reduce(d);
    d.option("at_least", &Options::at_least)
        .at_least(0)
        .bound()
        .help(
            "smallest score that passes; the score grows with the frames' size, and the default is for a "
            "height of 360");
    d.option("at_most", &Options::at_most)
        .at_least(0)
        .bound()
        .help("largest score that passes, against noise and film grain; default: no limit");
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
          options_.at_most, options_.mode);
  }

 private:
  Options options_;
};

// stage/filter.black: the share of frames that are black, by the definition of ffmpeg's blackdetect.
class FilterBlack final : public Stage {
 public:
  // pixel and picture are blackdetect's pixel_black_th and picture_black_ratio_th. A clip may begin or end
  // with a fade, but one that is black for a third of its length shows too little.
  struct Options : ModeOption {
    double pixel = 0.1, picture = 0.98, at_most = 0.33;
  };
  static void describe(Describe<Options>& d) {
    d.name("filter.black")
        .help(
            "Drops samples that are black too long: share of black frames, as measured by ffmpeg's "
            "blackdetect");
    d.score("filter.black", "Black frames", "of the frames");
    describe_mode(d);
    d.option("pixel", &Options::pixel).range(0, 1).help("largest luma of a black pixel");
    d.option("picture", &Options::picture)
        .range(0, 1)
        .help("smallest share of black pixels in a black frame");
    d.option("at_most", &Options::at_most)
        .range(0, 1)
        .bound()
        .help("largest share of black frames that passes");
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

// stage/filter.frozen: the share of frames without motion, by the definition of ffmpeg's freezedetect.
class FilterFrozen final : public Stage {
 public:
  // noise is freezedetect's (-60 dB). Drawings are often animated on threes, so two of three frames repeat;
  // the bound lets them pass at any sampling rate.
  struct Options : ModeOption {
    double noise = 0.001, at_most = 0.8;
  };
  static void describe(Describe<Options>& d) {
    d.name("filter.frozen")
        .help(
            "Drops stills: share of frames equal to the last differing one, as measured by ffmpeg's "
            "freezedetect");
    d.score("filter.frozen", "Frozen frames", "of the frames");
    describe_mode(d);
    d.option("noise", &Options::noise)
        .range(0, 1)
        .help("largest mean absolute difference between equal frames");
    d.option("at_most", &Options::at_most)
        .range(0, 1)
        .bound()
        .help("largest share of frozen frames that passes");
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

using kinora::filters::FilterBlack;
using kinora::filters::FilterBlur;
using kinora::filters::FilterBrightness;
using kinora::filters::FilterFrozen;
KINORA_COMPONENT(FilterBrightness)
KINORA_COMPONENT(FilterBlur)
KINORA_COMPONENT(FilterBlack)
KINORA_COMPONENT(FilterFrozen)
KINORA_PLUGIN(FilterBrightness, FilterBlur, FilterBlack, FilterFrozen, FilterLetterbox, FilterFlow,
              FilterText, FilterFacts)
