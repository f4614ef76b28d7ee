// score/drift: how a long video leaves its beginning. Each whole second is compared with the mean of the first
// seconds, as kernels/cpu/drift.hpp says. Saturation has a slope. No network looks at the video.
//
// Its state has for each video the number of its seconds, the jump at all its borders, and a row of
// mean, spread, histogram, sharpness, saturation and border_jump for each second.
#include "kernels/cpu/drift.hpp"

#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "kinora/aten.hpp"
#include "kinora/plugin.hpp"
#include "kinora/score.hpp"

namespace kinora::drift {
namespace {

using at::Tensor;
constexpr size_t kHead = 2, kRow = std::size(kColumns);

// Pixels [H, W, 3] in [0, 1], float64 on the CPU.
Tensor unit_pixels(const Tensor& frame) {
  const Tensor x = frame.to(at::kCPU, at::kDouble).permute({1, 2, 0});
  return (frame.scalar_type() == at::kByte ? x / 255 : (x + 1) / 2).contiguous();
}

// The least-squares slope of values over 0, 1, ..., n - 1.
double slope(const std::vector<Second>& table) {
  const double n = static_cast<double>(table.size()), middle = (n - 1) / 2;
  double sum = 0, squares = 0;
  for (size_t k = 0; k < table.size(); ++k) {
    const double away = static_cast<double>(k) - middle;
    sum += away * table[k].saturation;
    squares += away * away;
  }
  return sum / squares;
}

// The outputs for a video, in the manifest's order.
std::vector<double> outputs_of(const std::vector<Second>& table, int64_t reference, double border_jump) {
  std::vector<double> out;
  const auto later = static_cast<double>(table.size()) - static_cast<double>(reference);
  for (const auto value : {&Second::mean, &Second::spread, &Second::histogram, &Second::sharpness}) {
    double mean = 0;
    for (auto s = table.begin() + reference; s != table.end(); ++s) mean += *s.*value / later;
    out.insert(out.end(), {mean, table.back().*value});
  }
  out.insert(out.end(), {slope(table), border_jump});
  return out;
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
      const auto numbers = state_of(video[b], fps, run);
      made.insert(made.end(), numbers.begin(), numbers.end());
    }
    merge(made);
  }

  std::vector<double> state() const override { return state_; }

  void merge(std::vector<double> state) override {
    for (size_t at = 0; at < state.size(); at += length_at(state, at))
      if (length_at(state, at) > state.size() - at)
        throw Error(KINORA_ERROR_INVALID,
                    "a state of " + std::to_string(state.size()) + " numbers is not of whole videos");
    state_.insert(state_.end(), state.begin(), state.end());
  }

  std::vector<double> compute() const override {
    if (state_.empty())
      throw Error(KINORA_ERROR_UNSUPPORTED, "no video has a whole second behind its first " +
                                                std::to_string(o_.reference) + "; lower reference");
    std::vector<double> out;
    double videos = 0;
    for (size_t at = 0; at < state_.size(); at += length_at(state_, at), ++videos) {
      const auto numbers = outputs_of(table_at(at), o_.reference, state_[at + 1]);
      out.resize(numbers.size());
      for (size_t i = 0; i < numbers.size(); ++i) out[i] += numbers[i];
    }
    for (double& number : out) number /= videos;
    return out;
  }

 private:
  // Of the video that begins here; more than there is for a state that is none.
  size_t length_at(const std::vector<double>& state, size_t at) const {
    const double seconds = state[at];
    const bool is_number =
        seconds > static_cast<double>(o_.reference) && seconds < 1e9 && seconds == std::floor(seconds);
    return is_number ? kHead + kRow * static_cast<size_t>(seconds) : state.size() + 1;
  }

  std::vector<Second> table_at(size_t at) const {
    std::vector<Second> out(static_cast<size_t>(state_[at]));
    const double* number = &state_[at + kHead];
    for (Second& second : out)
      for (const Column& column : kColumns) second.*column.value = *number++;
    return out;
  }

  // Of a video [3, T, H, W]; empty if it has no second behind the reference.
  std::vector<double> state_of(const Tensor& video, double fps, const Run& run) const {
    Video measured(fps, o_.chunk, o_.first_chunk);
    Tensor before;
    for (int64_t t = 0; t < video.size(1); ++t) {
      run.check_cancelled();
      const Tensor rgb = unit_pixels(video.select(1, t));
      if (!rgb.isfinite().all().item<bool>())
        throw Error(KINORA_ERROR_INVALID,
                    "frame " + std::to_string(t) + " has pixels that are infinite or NaN");
      measured.add(row_of(rgb.const_data_ptr<double>(),
                          before.defined() ? before.const_data_ptr<double>() : nullptr, rgb.size(0),
                          rgb.size(1)));
      before = rgb;
    }
    const auto table = measured.table(o_.reference);
    if (table.empty()) return {};
    std::vector<double> out{static_cast<double>(table.size()), measured.border_jump()};
    for (const Second& second : table)
      for (const Column& column : kColumns) out.push_back(second.*column.value);
    return out;
  }

  Options o_;
  std::vector<double> state_;
};
KINORA_COMPONENT(Drift)
KINORA_PLUGIN(Drift)

}  // namespace kinora::drift
