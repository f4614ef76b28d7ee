// Which samples the microbatches of a training hold, by their numbers in the order of all samples: each a run of
// that order, or, if windows have several sizes, a packed row or a bucket of one size. Both divide the samples of
// one step, so a step has the same samples for any number of ranks and microbatches, and the position of a
// training is one number.
#pragma once
#include <map>
#include <vector>

#include "plugins/jobs/training/options/train_options.hpp"
#include "plugins/jobs/training/packing.hpp"
#include "plugins/jobs/windows/model_outline.hpp"
#include "plugins/jobs/windows/samples.hpp"

namespace kinora::core {

// [owner-thread]
class Microbatches {
 public:
  // The others must outlive it.
  // samples: null if all have one size.
  Microbatches(LiveStream* samples, const TrainOptions& options, const Parallelism& parallel)
      : samples_(samples), options_(options), parallel_(parallel) {}

  // Whether a step's samples are divided by their sizes, and whether into packed rows.
  bool are_divided() const { return samples_ && samples_->window_sizes() > 1; }
  bool are_rows() const { return are_divided() && !options_.are_buckets(); }
  // Earlier steps are not asked for any more.
  void begin_step(int64_t step) { steps_.erase(steps_.begin(), steps_.lower_bound(step)); }
  // The samples of the microbatch that would be [first, first + count) if all had one size.
  std::vector<int64_t> numbers(int64_t first, int64_t count);
  // The samples of all microbatches of this rank; none after the last step.
  std::vector<int64_t> numbers_of_step(int64_t step);
  // The mean number of tokens of a microbatch of the step, divided by the largest.
  double efficiency(int64_t step) { return of_step(step).division.efficiency; }
  // A sample of each size in the first step, with the share of the step's samples that have this size.
  std::map<int64_t, double> examples();

 private:
  struct Step {
    std::vector<LatentSize> sizes;
    Packing division;
  };
  const Step& of_step(int64_t step);
  // Samples of a microbatch of one rank.
  int64_t count() const { return options_.batch / options_.accumulate / parallel_.data_size(); }

  LiveStream* samples_;
  const TrainOptions& options_;
  const Parallelism& parallel_;
  std::map<int64_t, Step> steps_;  // this one and later ones
};

}  // namespace kinora::core
