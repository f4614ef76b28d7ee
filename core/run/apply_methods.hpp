// What `kinora apply` can do with a component of each kind: the one list that apply, inspect and completion
// use.
#pragma once
#include <string>
#include <vector>

#include "core/plugin/manifest.hpp"

namespace kinora::core {

struct ApplyMethod {
  std::string name;   // of --method; the first of a kind is the default
  std::string takes;  // names of tensors, "video"
  std::string gives;  // "latent, posterior"
};

// Empty for kinds that nothing can be applied of alone.
std::vector<ApplyMethod> apply_methods(const ComponentSpec&);

// What the component declares; of a sampler, which has none of its own, the mixture that it is tried on.
std::vector<TensorSpec> apply_inputs(const ComponentSpec&);
std::vector<TensorSpec> apply_outputs(const ComponentSpec&);

// Names of all tensors that a file of inputs may hold for `method`; empty: whatever the component asks for by
// itself.
std::vector<std::string> apply_takes(const ComponentSpec&, const std::string& method);

// Whether its parameters can be given, as --set weights=PATH.
bool has_weights(const ComponentSpec&);

}  // namespace kinora::core
