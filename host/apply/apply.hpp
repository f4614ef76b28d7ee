// Applies one component to one input, to examine it or to compare it with another implementation.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/plugin/options.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora::core {

struct ApplyRequest {
  std::string id;                // "stage/shots.content"
  std::string input;             // for a stage: a file
  std::filesystem::path inputs;  // for other kinds: safetensors with the interface's argument names
  std::filesystem::path out;     // for a stage: a folder; for other kinds: a safetensors file
  std::string method;            // "encode", "decode", "gradient" ...
  std::string weights;  // safetensors, file or folder, with the component's parameters; empty: as initialised
  std::string config;   // JSON whose members are options that `options` overrides; empty: config.json of
                        // the weights' folder, if it has one
  json options = json::object();
  int64_t seed = 0;
};

struct ApplyResult {
  json result;          // what --json prints
  std::string problem;  // why the result is incomplete (a damaged video); empty if it is complete
};

// The component's options, checked; all problems in one failure. Keys that apply handles itself are left out.
Options apply_options(Runtime&, const ApplyRequest&);

// A method of `kinora apply`. apply, inspect and completion share the list.
struct ApplyMethod {
  std::string name;   // of --method; the first of a kind is the default
  std::string takes;  // names of tensors, "video"
  std::string gives;  // "latent, posterior"
};

// The methods of the component's kind; empty for kinds that cannot be applied alone.
std::vector<ApplyMethod> apply_methods(const ComponentSpec&);

// The inputs that the component declares. A sampler declares none; its inputs are the mixture to sample from.
std::vector<TensorSpec> apply_inputs(const ComponentSpec&);
std::vector<TensorSpec> apply_outputs(const ComponentSpec&);

// Names of all tensors that a file of inputs may contain for `method`; empty: the component decides.
std::vector<std::string> apply_takes(const ComponentSpec&, const std::string& method);

// Whether the component accepts parameters as --set weights=PATH.
bool has_weights(const ComponentSpec&);

}  // namespace kinora::core
