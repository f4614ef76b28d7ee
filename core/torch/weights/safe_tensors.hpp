// safetensors files as libtorch tensors.
#pragma once
#include <filesystem>

#include "core/io/safetensors.hpp"
#include "core/torch/weights/weights.hpp"

namespace kinora::core {

at::ScalarType torch_dtype(SafeDtype);

// A CPU tensor that borrows the file's memory, which is read-only: copy before writing. The tensor keeps the
// mapping; when it goes, its pages leave the process.
at::Tensor as_tensor(const Safetensors& file, const SafeTensor& t);
// A source for load_values(); undefined for names that the file lacks.
Find find_in(const Safetensors& file);

// Whole file -> tensors that borrow from it. Throws kinora::Error.
NamedTensors read_tensors(const std::filesystem::path& path);
// Any device and strides; dtypes that safetensors has. Throws kinora::Error.
void write_tensors(const std::filesystem::path& path, const NamedTensors& tensors,
                   const SafeMetadata& metadata = {});

}  // namespace kinora::core
