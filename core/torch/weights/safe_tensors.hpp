// Reads and writes safetensors files as libtorch tensors.
#pragma once
#include <filesystem>

#include "core/torch/weights/weights.hpp"
#include "host/weights/safetensors.hpp"

namespace kinora::core {

at::ScalarType torch_dtype(SafeDtype);
// Throws kinora::Error(KINORA_ERROR_UNSUPPORTED), naming the tensor, for a dtype that safetensors does not
// have.
SafeDtype safe_dtype(const std::string& name, at::ScalarType);

// A CPU tensor that borrows the file's memory, which is read-only: copy before writing. The tensor keeps the
// mapping alive; when it is destroyed, its pages leave the process. A matrix in four bits and a
// weight in eight bits with scales are decoded, into memory of their own (four_bits.hpp, eight_bits.hpp).
at::Tensor as_tensor(const Safetensors& file, const SafeTensor& t);

// All tensors of an open file, or of a file by its path; the latter throws kinora::Error.
NamedTensors tensors_of(const Safetensors& file);
NamedTensors read_tensors(const std::filesystem::path& path);
// Accepts any device and strides, and dtypes that safetensors has. Throws kinora::Error.
void write_tensors(const std::filesystem::path& path, const NamedTensors& tensors,
                   const SafeMetadata& metadata = {});

}  // namespace kinora::core
