// Decodes weights that a file stores in eight bits with scales (host/weights/scaled_weight.hpp).
#pragma once
#include <ATen/core/Tensor.h>

#include "host/weights/safetensors.hpp"

namespace kinora::core {

// float32 of the shape of a tensor with `scaled`, on the CPU, in memory of its own. Throws
// kinora::Error(KINORA_ERROR_DATA) that names the scale if it is not finite, or negative.
at::Tensor decoded_scaled(const SafeTensor& t);

}  // namespace kinora::core
