// The host's side of kinora.tensors/1 (kinora/abi/tensor.h).
#pragma once
#include "kinora/abi/tensor.h"

namespace kinora::core {

// [any-thread] The table; constant. Its errors go to the host.
const kinora_tensors_api* tensors_api_table();

// When this library is opened, once: makes the host known to it and offers the table.
void serve_tensors();

}  // namespace kinora::core
