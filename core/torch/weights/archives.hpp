// Reads weights of TorchScript archives, such as NVIDIA's encoder.jit. Pickles (torch.save) are refused.
#pragma once
#include <filesystem>

#include "core/torch/weights/weights.hpp"

namespace kinora::core {

// Whether the path's weights are archives (archives_of in core/run/weights.hpp).
bool is_archive(const std::filesystem::path& given);
// Whether they are *.jit, which may have unused tensors: NVIDIA's tokenizers contain unused resamplers.
bool may_hold_more(const std::filesystem::path& given);

// Reads the parameters of a TorchScript file by name, on the CPU; buffers and program are ignored. Needs
// libtorch_cpu only. Throws kinora::Error for any other file; for a pickle the message has the command that
// converts it.
NamedTensors read_archive(const std::filesystem::path& file);
// Reads all archives of the path.
NamedTensors read_archives(const std::filesystem::path& given);

}  // namespace kinora::core
