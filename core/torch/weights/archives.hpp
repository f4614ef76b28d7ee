// Weights of TorchScript archives, such as NVIDIA's encoder.jit. Pickles (torch.save) are refused.
#pragma once
#include <filesystem>

#include "core/torch/weights/weights.hpp"

namespace kinora::core {

// Whether the path's weights are archives (archives_of in core/run/apply_published.hpp).
bool is_archive(const std::filesystem::path& given);
// Whether they are *.jit: NVIDIA's tokenizers hold resamplers that they do not use.
bool may_hold_more(const std::filesystem::path& given);

// Reads the parameters of a TorchScript file by their names, on the CPU; its buffers and program are left aside.
// Needs libtorch_cpu only. Throws kinora::Error for any other file, for a pickle with the command that converts it.
NamedTensors read_archive(const std::filesystem::path& file);
// Of all archives that the path is.
NamedTensors read_archives(const std::filesystem::path& given);

}  // namespace kinora::core
