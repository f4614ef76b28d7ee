// `kinora inspect`: size and cost of a model or tokenizer with these options, without allocating it.
#pragma once
#include "core/runtime/runtime.hpp"

namespace kinora::core {

// request: {"id", "options": {NAME: VALUE}, "inputs": {NAME: [SIZE, ...]}}. Returns {"component",
// "parameters", "trainable", "tensors", "bytes": {DTYPE: N}, "parts": [{"name", "copies", "tensors",
// "parameters"}]} and, with inputs, "flops":
// {"forward" (of a tokenizer: "encode", "decode"): {"linear", "attention", "convolution", "total", "parts":
// {NAME: N}}, "training_step", "training_step_recompute"}. Throws kinora::Error.
json inspect_component(Runtime& runtime, const json& request);

}  // namespace kinora::core
