// The host's side of kinora.tensors/1 (kinora/abi/tensor.h).
#pragma once
#include "kinora/abi/tensor.h"

namespace kinora::core {

// [any-thread] The table; constant. Errors are reported to the host.
const kinora_tensors_api* tensors_api_table();

// For a program that links this library instead of opening it (a test): registers the
// table.
void serve_tensors();

}  // namespace kinora::core
