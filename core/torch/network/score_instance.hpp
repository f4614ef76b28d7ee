// A score as an object: an instance of a component with its calls on at::Tensor, and the merger of the
// instances of several ranks. Errors are kinora::Error and name the component.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/plugin/opening.hpp"
#include "core/torch/weights/weights.hpp"
#include "kinora/abi/parallel.h"
#include "kinora/abi/score.h"

namespace kinora::core {

// [owner-thread], as the table's calls are. It refers to the component's spec and table.
class ScoreInstance {
 public:
  // Throws the component's error about its options.
  ScoreInstance(const Component&, const Options&);

  const ComponentSpec& spec() const { return spec_; }
  // Adds samples: those of `in` that the manifest lists. Throws Error(KINORA_ERROR_INVALID) if a required one
  // is missing. run: the caller's; null: nobody stops the call.
  void update(const NamedTensors& in, const kinora_run* run = nullptr);
  // float64 [S] on the CPU: all samples so far.
  at::Tensor state() const;
  // Adds the samples behind another instance's state.
  void merge(const at::Tensor& state);
  // The manifest's outputs by name, in its order. Throws Error(KINORA_ERROR_UNSUPPORTED) if the samples define
  // no number.
  std::vector<std::pair<std::string, double>> compute() const;

 private:
  const ComponentSpec& spec_;
  const kinora_score& api_;
  Instance self_;
};

// [owner-thread] Collective over the group. Adds the samples of every rank's `mine` to `whole`, a new
// instance, in the order of the ranks.
void merge_ranks(const kinora_group&, const ScoreInstance& mine, ScoreInstance& whole);

}  // namespace kinora::core
