#pragma once
#include "core/runtime/tensor_service.hpp"

namespace kinora::core {

// The service that libkinora_torch offers when it is opened.
const TensorService& torch_tensors();

}  // namespace kinora::core
