// Tensors of a safetensors file on any storage.
#pragma once
#include <map>
#include <string>

#include <ATen/ATen.h>

namespace kinora::perceptual {

// Float32 and float64 tensors by name; others are ignored. Throws kinora::Error if it is not a safetensors file.
std::map<std::string, at::Tensor> read_weights(const std::string& uri);

}  // namespace kinora::perceptual
