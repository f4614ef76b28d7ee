// The optimizer of a training: a component that updates ranges of leaves, with the states that it keeps.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/plugin/opening.hpp"
#include "core/torch/weights/exchange.hpp"
#include "core/torch/weights/weights.hpp"
#include "kinora/abi/optimizer.h"
#include "plugins/jobs/training/ema.hpp"

namespace kinora::core {

// Weight decay of a parameter.
using Decay = std::function<double(const Parameter&)>;

// Whether weight decay applies to a parameter: to matrices and kernels, which are multiplied with
// activations. Not to norms, biases and other vectors (also [C, 1, 1, 1]), and not to tables, whose rows are
// looked up or added (KINORA_ROLE_TABLE).
bool decays(const Parameter&);
// weight_decay where decays() holds, else 0.
Decay usual_decay(double weight_decay);

// Parameters whose update depends on all of their numbers (kinora_update_plan.whole) are gathered: each rank
// computes some of them, and all get the results. Errors are kinora::Error.
class Optimizer {
 public:
  // The leaves are kept by reference and must outlive it; frozen ones have no state. exchange: among all
  // ranks that hold parts of the parameters.
  Optimizer(const Component&, const Options&, const Parameters&, std::vector<Leaf>&, const Decay&,
            const Exchange& exchange = {});

  // Updates the weights by gradient_factor times the gradients in grad(), which may change, and the averages
  // by the new weights. A leaf without a gradient and its states are unchanged. Collective over all ranks.
  void step(double learning_rate, double gradient_factor = 1, const std::vector<Ema*>& averages = {});
  void zero_grad();
  int64_t steps() const { return steps_; }
  void set_steps(int64_t n) { steps_ = n; }

  // Names of the states: the outputs of the component's manifest. state(i) has one tensor per leaf, undefined
  // for leaves that do not have it.
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<at::Tensor>& state(size_t i) const { return states_.at(i); }
  // This rank's part of the states for a checkpoint, each under its name and a dot.
  std::vector<Holding> held_states() const;
  // Copies whole states from a checkpoint ("first.NAME"), all of them. Throws Error(KINORA_ERROR_DATA) for a
  // name that is no state of this optimizer, and Error(KINORA_ERROR_INVALID) for one that is missing: it
  // would be zeros.
  void restore(NamedTensors states);

 private:
  struct Plan {
    uint32_t states = 0;
    bool whole = false;
    double decay = 0;
    bool operator==(const Plan&) const = default;
  };
  // Numbers [offset, offset + count) of a flattened leaf.
  struct Range {
    int64_t offset, count;
    Plan plan;
  };
  Plan plan_of(const Parameter&, const Decay&) const;
  void add_ranges(const Leaf&);
  void update(size_t leaf, const Range&, const kinora_update& like, const std::vector<Ema*>& averages,
              const std::vector<double>& shares);
  // The leaves with the pieces of parameters for whose plans `chosen` holds.
  template <class Chosen>
  std::vector<Leaf> leaves_with(Chosen chosen) const;
  // The second half of a step, for parameters that are updated as a whole.
  void step_whole(double learning_rate, const std::vector<Ema*>& averages, const std::vector<double>& shares);
  at::Tensor change_of(const std::string& name, const at::Tensor& direction) const;
  void apply(const std::string& name, const at::Tensor& change, double learning_rate,
             const std::vector<Ema*>& averages, const std::vector<double>& shares);

  const ComponentSpec& spec_;
  const kinora_optimizer& api_;
  Instance self_;
  const Parameters parameters_;
  std::vector<Leaf>& leaves_;
  Exchange exchange_;
  std::vector<Plan> plans_;                      // by kinora_param - 1
  std::vector<std::vector<Range>> ranges_;       // by leaf
  std::vector<std::string> names_;               // of states
  std::vector<std::vector<at::Tensor>> states_;  // by state, then by leaf
  std::map<std::string, size_t> numbers_;        // of parameters, by name
  bool any_whole_ = false;
  int64_t steps_ = 0;
};

}  // namespace kinora::core
