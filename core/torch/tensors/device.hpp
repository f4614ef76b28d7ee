// The device that a job computes on.
#pragma once
#include <string>

#include <c10/core/Device.h>

namespace kinora::core {

// "cpu", "cuda", "cuda:1"; or "auto": the first GPU that libtorch can use, otherwise the CPU. libtorch's CUDA
// library is first opened here, so a machine without one does not need it. Throws Error(KINORA_UNSUPPORTED)
// with the reason if a GPU requested by name is unavailable.
at::Device device_of(const std::string& name);

// The reason why no GPU is available; empty if one is.
const std::string& why_no_gpu();

}  // namespace kinora::core
