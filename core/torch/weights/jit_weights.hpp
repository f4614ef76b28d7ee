// Weights of TorchScript archives, such as NVIDIA's published encoder.jit.
#pragma once
#include <filesystem>

#include "core/torch/weights/weights.hpp"

namespace kinora::core {

// Whether it is a TorchScript archive by its name, *.jit, or a folder of them: encoder.jit and decoder.jit.
bool is_jit(const std::filesystem::path& path);

// The parameters of a TorchScript archive by their names there, on the CPU; its buffers and its program are
// left aside, and nothing of it is run. Needs libtorch_cpu only. Throws kinora::Error for a file that is
// none.
// A folder: of its encoder.jit and decoder.jit together.
NamedTensors read_jit(const std::filesystem::path& path);

}  // namespace kinora::core
