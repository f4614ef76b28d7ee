// The networks behind one denoiser: one, or two that divide the noise levels between them. Wan 2.2 (A14B) has
// an expert for the timesteps from pure noise down to a boundary and another below it; both have the same
// architecture.
#pragma once
#include <array>
#include <memory>

#include "plugins/jobs/training/options/paths_option.hpp"
#include "core/torch/context/network.hpp"
#include "plugins/jobs/training/generating/parts.hpp"

namespace kinora::core {

// Where the two experts' weights are, and from which timestep on the second denoises.
struct TwoExperts {
  WeightsPaths low;
  double boundary = 0;  // share of the timesteps
};
// From the job's options weights_2 and boundary, or from the pipeline folder that `model` names, whose
// weights then become the first expert's; nothing if there is only one expert. Throws Error(KINORA_INVALID)
// if they contradict each other or the boundary is unknown.
std::optional<TwoExperts> two_experts(const JobView&, Part& model);

class Experts {
 public:
  // One network with its weights.
  explicit Experts(Network& model) : networks_{&model, &model} {}
  // high, low: two networks with their weights.
  Experts(Network& high, Network& low, double boundary) : networks_{&high, &low}, boundary_(boundary) {}
  // One network that receives each expert's weights in turn and now has the first's. Half the memory.
  Experts(Network& model, WeightsPaths high, WeightsPaths low, double boundary)
      : networks_{&model, &model}, weights_{std::move(high), std::move(low)}, boundary_(boundary) {}

  // Share of the timesteps below which the second expert denoises; 0: there is only one.
  double boundary() const { return boundary_; }
  // The network of expert 0 or 1 with its weights loaded.
  Network& use(size_t expert);

 private:
  std::array<Network*, 2> networks_;
  std::array<WeightsPaths, 2> weights_;  // empty: both are in memory
  double boundary_ = 0;
  size_t loaded_ = 0;
};

}  // namespace kinora::core
