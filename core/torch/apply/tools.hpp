// The work that libkinora_torch does for the program (core/runtime/tensor_service.hpp): `kinora apply`, `kinora
// convert` and `kinora inspect` for components that work on tensors. All throw kinora::Error.
#pragma once
#include "core/runtime/runtime.hpp"
#include "host/apply/apply.hpp"

namespace kinora::core {

// `kinora apply`: safetensors in, safetensors out, with the names of the interface; for a score, its numbers are in the
// result, and a sampler works on the Gaussian mixture mean, std, weight. The methods: host/apply/apply.hpp.
ApplyResult apply_tensors(Runtime&, const ApplyRequest&);

// `kinora convert`: converts weights from one file layout, naming scheme or dtype to another, and merges
// adapters into weights or extracts them. One tensor at a time is in memory; tensors that are only renamed
// keep their bytes.
//
// request: {"in", "out", "component", "from", "to", "dtype", "max_shard", "merge", "unmerge", "expert", "options"};
// empty strings and 0 mean not given. `out`: X.safetensors, or a folder as diffusers writes it (as
// transformers does, for a model of input_ids) with the input's config.json. Existing files are never
// replaced. Returns {"file", "tensors", "bytes", "from", "to", "dropped", "merged"}.
json convert_weights(Runtime& runtime, const json& request);
// component: the one that request["component"] names; null: none.
json convert_weights(const Component* component, const json& request);

// The same for an adapter (is_adapter): "to" is diffusers, comfyui, peft, or one of the component's layouts, which
// ComfyUI reads too; without a component, the one whose modules the adapter's names are is found. expert: "high" or
// "low", of a file with the adapters of both. `out`: X.safetensors or a folder; a folder for peft.
json convert_adapter(Runtime& runtime, const json& request);

// `kinora inspect`: size and cost of a model or tokenizer with these options, without allocating it.
//
// request: {"id", "options": {NAME: VALUE}, "inputs": {NAME: [SIZE, ...]}}. Returns {"component",
// "parameters", "trainable", "tensors", "bytes": {DTYPE: N}, "parts": [{"name", "copies", "tensors",
// "parameters"}]} and, with inputs, "flops":
// {"forward" (of a tokenizer: "encode", "decode"): {"linear", "attention", "convolution", "total", "parts":
// {NAME: N}}, "training_step", "training_step_recompute"}.
json inspect_component(Runtime& runtime, const json& request);

}  // namespace kinora::core
