// libkinora_cuda (kinora/abi/cuda.h), if a CUDA build installed it: CUDA graphs, pinned copies, memory
// statistics.
#pragma once
#include <string>

#include <c10/core/Device.h>
#include <nlohmann/json.hpp>

#include "kinora/abi/cuda.h"

namespace kinora::core {

// Null on the CPU and if the library is missing. Opened on the first request for a GPU, and then also offered
// to plugins.
const kinora_cuda_api* cuda_library(at::Device device);
// The reason why the library cannot be opened; empty if it can.
const std::string& why_no_cuda_library();

// Adds the device's gpu_peak_bytes (of tensors) and gpu_reserved_bytes, if they are known.
void add_memory(nlohmann::json& to, at::Device device);

}  // namespace kinora::core
