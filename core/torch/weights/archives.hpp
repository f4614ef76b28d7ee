// Weights of PyTorch's own archives: TorchScript, such as NVIDIA's encoder.jit, and what torch.save writes.
#pragma once
#include <filesystem>

#include "core/torch/weights/weights.hpp"

namespace kinora::core {

// Whether the path's weights are archives (archives_of in core/run/apply_published.hpp).
bool is_archive(const std::filesystem::path& given);
// Whether they are *.jit: NVIDIA's tokenizers hold resamplers that they do not use.
bool may_hold_more(const std::filesystem::path& given);

// A file's tensors by their names there, on the CPU: the parameters of TorchScript, whose buffers and program
// are left aside; of torch.save those of a dict, or of its member "model" or "state_dict". Nothing of it is
// run. Needs libtorch_cpu only. Throws kinora::Error for a file that is none.
NamedTensors read_archive(const std::filesystem::path& file);
// Of all archives that the path is.
NamedTensors read_archives(const std::filesystem::path& given);

}  // namespace kinora::core
