// The device that a job computes on.
#pragma once
#include <string>

#include <c10/core/Device.h>

namespace kinora::core {

// "cpu", "cuda", "cuda:1"; or "auto": the first GPU if there is one that libtorch can use, else the CPU.
// libtorch's CUDA library is opened here for the first time, so a machine without one needs none of it.
// Throws Error(KINORA_UNSUPPORTED) that says why a GPU that is asked for by name cannot be had.
at::Device device_of(const std::string& name);

// Why there is no GPU; empty if there is.
const std::string& why_no_gpu();

}  // namespace kinora::core
