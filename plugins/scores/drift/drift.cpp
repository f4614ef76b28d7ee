// score/drift: how a long video leaves its beginning. Each whole second is compared with the mean of the first seconds:
// mean and spread of the channels, the histogram of colours, sharpness. Saturation has a slope, and the borders of
// chunks a jump. No network looks at the video. Pixels count in [0, 1].
//
// Its state has kNumbers numbers for each video, the outputs.
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "kinora/aten.hpp"
#include "kinora/plugin.hpp"
#include "kinora/score.hpp"
#include "plugins/scores/drift/frames.hpp"

namespace kinora::drift {
namespace {

using at::Tensor;
constexpr size_t kNumbers = 10;

// The least-squares slope of values [S] over 0, 1, ..., S - 1.
double slope(const Tensor& values) {
  const Tensor at = at::arange(values.size(0), at::kDouble), away = at - at.mean();
  return ((away * values).sum() / away.square().sum()).item<double>();
}

// The mean change at the borders, frames first, first + chunk, ..., minus that of the other frames.
double jump_at(const Tensor& change, int64_t first, int64_t chunk) {
  double border = 0, other = 0, borders = 0, others = 0;
  for (int64_t t = 1; chunk > 0 && t < change.size(0); ++t) {
    const bool is_border = t >= first && (t - first) % chunk == 0;
    (is_border ? border : other) += change[t].item<double>();
    (is_border ? borders : others) += 1;
  }
  return borders > 0 && others > 0 ? border / borders - other / others : 0;
}

}  // namespace

class Drift final : public Score<at::Tensor> {
 public:
  struct Options {
    double fps = 24;
    int64_t reference = 1, chunk = 0, first_chunk = 0;
  };
  static void describe(Describe<Options>& d) {
    d.name("drift").help("drift of long videos: each second against the first ones, without a network");
    d.option("fps", &Options::fps).range(1, 1000).help("frames per second of videos without the input fps");
    d.option("reference", &Options::reference)
        .range(1, 1000)
        .unit("seconds")
        .help("length of the beginning that later seconds are compared with");
    d.option("chunk", &Options::chunk)
        .at_least(0)
        .unit("frames")
        .help("length of a chunk, for border_jump: 4 * latent frames for Wan; 0: no borders");
    d.option("first_chunk", &Options::first_chunk)
        .at_least(0)
        .unit("frames")
        .help("length of the first chunk, 3 less for Wan; 0: as the others");
    d.input("video", "[B, 3, T, H, W]", "uint8",
            "RGB, or of floating point in [-1, 1]; a video without a whole second behind `reference` is left "
            "out");
    d.input("fps", "[B]", "float", "frames per second of each video", {.optional = true});
    d.output("mean", "[]", "float64", "change of a channel's mean, over channels and later seconds");
    d.output("mean_end", "[]", "float64", "the same of the last second");
    d.output("spread", "[]", "float64", "change of a channel's standard deviation");
    d.output("spread_end", "[]", "float64", "the same of the last second");
    d.output("histogram", "[]", "float64", "half the summed difference of the shares of 512 colours, 0 to 1");
    d.output("histogram_end", "[]", "float64", "the same of the last second");
    d.output("sharpness", "[]", "float64",
             "rise of the mean absolute Laplacian; below 0: later seconds are blurred");
    d.output("sharpness_end", "[]", "float64", "the same of the last second");
    d.output("saturation_slope", "[]", "float64",
             "rise of the largest minus the smallest channel, per second");
    d.output("border_jump", "[]", "float64",
             "mean change from frame to frame at borders of chunks, minus that elsewhere");
  }
  explicit Drift(const Options& o) : o_(o) {}

  void update(const Run& run, const Named<Tensor>& in) override {
    const Tensor video = in["video"], rates = in.get("fps");
    if (video.dim() != 5 || video.size(1) != 3 || video.size(3) == 0 || video.size(4) == 0 ||
        !(video.is_floating_point() || video.scalar_type() == at::kByte))
      throw Error(KINORA_ERROR_INVALID, c10::str("video must be [B, 3, T, H, W] of floating point or uint8, "
                                                 "found ",
                                                 video.sizes(), " of ", video.scalar_type()));
    if (rates.defined() && (rates.dim() != 1 || rates.size(0) != video.size(0)))
      throw Error(KINORA_ERROR_INVALID,
                  c10::str("fps must be [", video.size(0), "], one for each video, found ", rates.sizes()));
    std::vector<double> made;
    for (int64_t b = 0; b < video.size(0); ++b) {
      const double fps = rates.defined() ? rates[b].item<double>() : o_.fps;
      if (!(fps >= 1 && fps <= 1000))
        throw Error(KINORA_ERROR_INVALID, c10::str("fps of video ", b, " is ", fps, ", expected 1 to 1000"));
      const auto numbers = numbers_of(video[b], fps, run);
      made.insert(made.end(), numbers.begin(), numbers.end());
    }
    merge(made);
  }

  std::vector<double> state() const override { return numbers_; }

  void merge(std::vector<double> state) override {
    if (state.size() % kNumbers != 0)
      throw Error(KINORA_ERROR_INVALID, "a state of " + std::to_string(state.size()) +
                                            " numbers does not have " + std::to_string(kNumbers) +
                                            " for each video");
    numbers_.insert(numbers_.end(), state.begin(), state.end());
  }

  std::vector<double> compute() const override {
    if (numbers_.empty())
      throw Error(KINORA_ERROR_UNSUPPORTED, "no video has a whole second behind its first " +
                                                std::to_string(o_.reference) + "; lower reference");
    const auto videos = static_cast<double>(numbers_.size() / kNumbers);
    std::vector<double> out(kNumbers);
    for (size_t i = 0; i < numbers_.size(); ++i) out[i % kNumbers] += numbers_[i] / videos;
    return out;
  }

 private:
  // The outputs for a video [3, T, H, W]; none if it has no second behind the reference.
  std::vector<double> numbers_of(const Tensor& video, double fps, const Run& run) const {
    if (seconds_in(video.size(1), fps) <= o_.reference) return {};
    const Tensor frames = rows_of_frames(video, run), seconds = rows_of_seconds(frames, fps);
    const int64_t R = o_.reference;
    const Tensor later = seconds.narrow(0, R, seconds.size(0) - R) - seconds.narrow(0, 0, R).mean(0);
    const Tensor each[] = {later.narrow(1, kMean, 3).abs().mean(1), later.narrow(1, kSpread, 3).abs().mean(1),
                           0.5 * later.narrow(1, kHistogram, kColumns - kHistogram).abs().sum(1),
                           later.select(1, kSharpness)};
    std::vector<double> out;
    for (const Tensor& of_second : each) {
      out.push_back(of_second.mean().item<double>());
      out.push_back(of_second[-1].item<double>());
    }
    out.push_back(slope(seconds.select(1, kSaturation)));
    out.push_back(
        jump_at(frames.select(1, kChange), o_.first_chunk > 0 ? o_.first_chunk : o_.chunk, o_.chunk));
    return out;
  }

  Options o_;
  std::vector<double> numbers_;
};
KINORA_COMPONENT(Drift)
KINORA_PLUGIN(Drift)

}  // namespace kinora::drift
