// Reads a safetensors file (huggingface/safetensors: 8 bytes of length, a JSON header, the tensors) into ATen
// tensors. Meant for the float32 weights of one small network; the file is read whole.
#pragma once

#include <map>
#include <string>

#include <ATen/core/Tensor.h>

namespace kinora::transnetv2 {

// Returns the float32 tensors by name and ignores other types. Error(KINORA_DATA) names the file and what is
// wrong.
std::map<std::string, at::Tensor> read_safetensors(const std::string& uri);

}  // namespace kinora::transnetv2
