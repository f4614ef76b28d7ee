// Common parts of the filters: shared options, a sample's facts, and the decision to emit or drop a sample.
#pragma once
#include <string>
#include <vector>

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
      .help("how the frames' values are combined into the sample's score");
}
template <class Options>
void describe_frames(Describe<Options>& d) {
  d.input("frames", "[T, H, W, 3]", "uint8", "sampled RGB frames, upright");
}

// Reduces values, which must not be empty, to one number; `how` is a choice of ReduceOption.
double reduce(const std::vector<double>& values, const std::string& how);

// Ends every filter: sets the sample's facts and drops it by `rule` if its score is outside [low, high], unless
// `always_kept` is set.
void leave(Sample in, nlohmann::json facts, const Emit& emit, const std::string& rule, double score, double low,
           double high, bool always_kept);

// The same for a filter whose only result is the score; the sample is always kept in mode "score".
void judge(Sample in, const Emit& emit, const std::string& rule, double score, double low, double high,
           const std::string& mode);

}  // namespace kinora::filters
