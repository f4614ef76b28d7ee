// A safetensors file (huggingface/safetensors: 8 bytes of length, a JSON header, the tensors) as ATen
// tensors. For the float32 weights of one small network; the file is read whole.
#pragma once

#include <map>
#include <string>

#include <ATen/core/Tensor.h>

namespace kinora::transnetv2 {

// Its float32 tensors by name; those of other types are left out. Error(KINORA_DATA) names the file and what
// is wrong.
std::map<std::string, at::Tensor> read_safetensors(const std::string& uri);

}  // namespace kinora::transnetv2
