// Decodes matrices that a file stores in four bits (host/weights/packed_matrix.hpp).
#pragma once
#include <ATen/core/Tensor.h>

#include "host/weights/packed_matrix.hpp"

namespace kinora::core {

// float32 [rows, cols] of a tensor with `packed`, on the CPU, in memory of its own: 4 bytes a number of the
// padded matrix. Throws kinora::Error(KINORA_ERROR_DATA) that names the tensor and counts the scales that are
// NaN or negative, which no quantiser writes.
at::Tensor decoded(const SafeTensor& t);

}  // namespace kinora::core
