// libkinora_torch is opened when a job or plugin first needs tensors, so that everything else starts without
// libtorch.
#pragma once
#include <string>
#include <vector>

#include "core/runtime/runtime.hpp"
#include "kinora/abi/tensor.h"

namespace kinora::core {

struct ApplyRequest;
struct ApplyResult;
using ApplyFunction = ApplyResult (*)(Runtime&, const ApplyRequest&);

// Opens libkinora_torch next to this library; it registers the tensor interface and its part of `apply`. Give it to Runtime::torch_loader().
Status open_torch_library();

// Called by libkinora_torch when it is opened.
void register_apply(const std::string& kind, ApplyFunction);

// Commands on weights: "convert", "inspect".
using ToolFunction = json (*)(Runtime&, const json& request);
void register_tool(const std::string& name, ToolFunction);

// Standard normal numbers for kinora_run.noise: see there. Row b of `like` is global sample first_sample + b.
using NoiseFunction = int32_t (*)(uint64_t seed, int64_t first_sample, const char* key, kinora_tensor like,
                                  kinora_tensor* out);
void register_noise(NoiseFunction);
int32_t draw_noise(uint64_t seed, int64_t first_sample, const char* key, kinora_tensor like,
                   kinora_tensor* out);

// The options of a component whose weights say more (core/torch/context/fitting.hpp).
using FittingFunction = json (*)(const Component&, const json& given,
                                 const std::vector<std::filesystem::path>& weights);
void register_fitting(FittingFunction);

// Open libkinora_torch first. Throw kinora::Error if it cannot be opened or has no such part.
ApplyFunction torch_apply(const std::string& kind);
ToolFunction torch_tool(const std::string& name);
FittingFunction torch_fitting();
// A tool of another library next to this one, lib<LIBRARY>.so, whose function <LIBRARY>_open registers its tools.
ToolFunction tool_of(const std::string& library, const std::string& name);

}  // namespace kinora::core
