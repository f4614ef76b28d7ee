// The common part of the filters: options, a sample's frames, and the decision to emit or drop a sample.
#pragma once
#include <string>
#include <vector>

#include <opencv2/core.hpp>

#include "kinora/curation.hpp"
#include "kinora/stage.hpp"

namespace kinora::filters {

struct ModeOption {
  std::string mode = "on";
};
template <class Options>
void describe_mode(Describe<Options>& d) {
  d.option("mode", &ModeOption::mode)
      .choices({"on", "score"})
      .help("score: records the score and drops nothing");
}

struct ReduceOption {
  std::string reduce = "mean";
};
template <class Options>
void describe_reduce(Describe<Options>& d) {
  d.option("reduce", &ReduceOption::reduce)
      .choices({"mean", "min", "max"})
      .help("combination of the frames' values into the sample's score");
}
template <class Options>
void describe_frames(Describe<Options>& d) {
  d.input("frames", "[T, H, W, 3]", "uint8", "sampled RGB frames, upright");
}

// Reduces values, which must not be empty, to one number; `how` is a choice of ReduceOption.
double reduce(const std::vector<double>& values, const std::string& how);

// Ends every filter: sets the sample's facts and drops it by `rule` if its score is outside [low, high],
// unless `always_kept` is set.
void leave(Sample in, nlohmann::json facts, const Emit& emit, const std::string& rule, double score,
           double low, double high, bool always_kept);

// The same for a filter whose only result is the score; the sample is always kept in mode "score".
void judge(Sample in, const Emit& emit, const std::string& rule, double score, double low, double high,
           const std::string& mode);

// A sample's tensor `frames`: T pictures of height x width, RGB of 8 bits, borrowed from the sample.
class Frames {
 public:
  // Throws like pictures_of(), and for sides above 32768 pixels, OpenCV's limit.
  explicit Frames(const Sample& sample);

  int64_t count() const { return pictures_.count; }
  int height() const { return static_cast<int>(pictures_.height); }
  int width() const { return static_cast<int>(pictures_.width); }
  double pixels() const { return static_cast<double>(pictures_.height * pictures_.width); }
  // [H, W] with three channels; valid as long as the sample.
  cv::Mat rgb(int64_t i) const;
  // [H, W] full-range luma by BT.601, as OpenCV's COLOR_RGB2GRAY rounds it.
  cv::Mat luma(int64_t i) const;

 private:
  Pictures pictures_;
};

}  // namespace kinora::filters
