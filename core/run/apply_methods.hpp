// The methods of `kinora apply` for each kind of component. apply, inspect and completion share this list.
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

// Empty for kinds that cannot be applied alone.
std::vector<ApplyMethod> apply_methods(const ComponentSpec&);

// The inputs that the component declares. A sampler declares none; its inputs are the mixture to sample from.
std::vector<TensorSpec> apply_inputs(const ComponentSpec&);
std::vector<TensorSpec> apply_outputs(const ComponentSpec&);

// Names of all tensors that a file of inputs may contain for `method`; empty: the component decides.
std::vector<std::string> apply_takes(const ComponentSpec&, const std::string& method);

// Whether the component accepts parameters as --set weights=PATH.
bool has_weights(const ComponentSpec&);

}  // namespace kinora::core
