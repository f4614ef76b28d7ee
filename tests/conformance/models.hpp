// Every model of the registry at a size suitable for tests, with inputs drawn by its manifest, and the
// results of one forward and backward. A strategy must not change them.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/plugin/registry.hpp"
#include "core/torch/network/model.hpp"

namespace kinora::test {

// A small form of a model. A model may have several.
struct SmallModel {
  std::string id;
  core::json options;
  std::set<std::string> without = {};  // inputs to leave out
  // Shapes of inputs that the manifest does not fix.
  std::map<std::string, std::vector<int64_t>> shapes = {};
  int64_t vocabulary = 20;  // integer inputs are below it
};
const std::vector<SmallModel>& small_models();

// Draws one tensor for each input of the manifest: "float" normal in float64 with a gradient, integers, and
// masks whose first entry in each row is true. Shapes are like "[B, in_channels, T / patch_time]": names are
// options, or sizes of the table in the source. Throws std::runtime_error naming an input that cannot be
// made.
core::NamedTensors draw_inputs(const core::ComponentSpec& spec, const core::Options& options,
                               const SmallModel& small);

// Output, gradients and everything else that two ways of running a model must have in common, by name:
// "output NAME", "parameter NAME", "input NAME".
using Outcome = std::map<std::string, at::Tensor>;

// One forward and backward in float64 of a network whose parameters were all moved away from their initial
// values (zeros would hide a lost gradient). `links` outlive the call. needs_gradient: whether inputs get
// gradients.
Outcome run_model(const core::Component& model, const SmallModel& small,
                  const std::vector<const kinora_link*>& links, bool needs_gradient = true);

// Largest difference over all entries, relative to the entry's size, and its entry; infinite if an entry
// exists on one side only.
struct Difference {
  double value = 0;
  std::string where;
};
Difference difference(const Outcome& found, const Outcome& wanted);

}  // namespace kinora::test
