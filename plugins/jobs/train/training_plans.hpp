// Questions of the program about a train job that does not run: the outline of its model, whether a layout suits
// it, the order of its samples, and the speed of this machine.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugins/jobs/windows/model_outline.hpp"

namespace kinora::core {

class JobView;
class Runtime;

// The speed of one thread, measured with a small model.
struct StepRate {
  double product;  // operations per second of large matrix products
  double share;    // the fraction of it that a training step reaches
};

// How a training divides samples of several sizes.
struct StepDivision {
  double held_out = 0;  // share of the clips
  uint64_t first = 0;   // slot
  size_t steps = 1, ranks = 1, accumulate = 1, batch = 1;
  bool buckets = false;  // microbatches have one size each
};

// [any-thread] The functions throw kinora::Error.
class TrainingPlans {
 public:
  static constexpr const char* kId = "service/training-plans";
  virtual ~TrainingPlans() = default;
  // The latent's size is the job's own, which an earlier encode job makes, if none is given. For a model that
  // cannot run on the meta device, the error says so.
  virtual ModelOutline outline(const JobView& train, const std::optional<LatentSize>& latent) const = 0;
  // Why the strategies and the precision refuse the job's layout of this many ranks, as `kinora check
  // --ranks` does; "" if they do not.
  virtual std::string layout_refusal(const JobView& train, int64_t ranks) const = 0;
  // For each step the slots of each rank, in the order of its microbatches. encode: the job with the table of
  // data. Reads the facts of the samples, and probes clips without any.
  virtual std::vector<std::vector<std::vector<uint64_t>>> divided_steps(const JobView& encode,
                                                                        const StepDivision&) const = 0;
  virtual StepRate step_rate(Runtime&) const = 0;
};

}  // namespace kinora::core
