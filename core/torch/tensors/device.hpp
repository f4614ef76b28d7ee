// The device that a job computes on, and the library that serves GPUs.
#pragma once
#include <string>

#include <c10/core/Device.h>
#include <nlohmann/json.hpp>

#include "kinora/abi/cuda.h"

namespace kinora::core {

// "cpu", "cuda", "cuda:1"; or "auto": the first GPU that libtorch can use, otherwise the CPU. libtorch's CUDA
// library is first opened here, so a machine without one does not need it; for a GPU libkinora_cuda is opened
// too, if it exists. Throws Error(KINORA_ERROR_UNSUPPORTED) with the reason if a GPU requested by name is
// unavailable.
at::Device device_of(const std::string& name);

// The reason why no GPU is available; empty if one is.
const std::string& why_no_gpu();

// libkinora_cuda (kinora/abi/cuda.h), if a CUDA build installed it: CUDA graphs, pinned copies, memory
// statistics, kernels. Null on the CPU and if the library is missing. Opened on the first request for a GPU,
// and then also offered to plugins.
const kinora_cuda_api* cuda_library(at::Device device);
// The reason why the library cannot be opened; empty if it can.
const std::string& why_no_cuda_library();

// Adds the device's gpu_peak_bytes (of tensors) and gpu_reserved_bytes, if they are known.
void add_memory(nlohmann::json& to, at::Device device);

}  // namespace kinora::core
