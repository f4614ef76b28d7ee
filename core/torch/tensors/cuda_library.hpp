// libkinora_cuda (kinora/abi/cuda.h), where the build for CUDA installed it: CUDA graphs, pinned copies,
// memory figures.
#pragma once
#include <string>

#include <c10/core/Device.h>
#include <nlohmann/json.hpp>

#include "kinora/abi/cuda.h"

namespace kinora::core {

// Null on the CPU and where the library is not. Opened when it is asked for first for a GPU, and then offered
// to plugins too.
const kinora_cuda_api* cuda_library(at::Device device);
// Why the library cannot be opened; empty if it can.
const std::string& why_no_cuda_library();

// Adds gpu_peak_bytes (of tensors) and gpu_reserved_bytes of the device, where they are known.
void add_memory(nlohmann::json& to, at::Device device);

}  // namespace kinora::core
