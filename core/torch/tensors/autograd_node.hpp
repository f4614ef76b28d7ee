// One node of the autograd graph whose forward and backward are C functions:
// kinora_tensors_api.autograd_apply.
#pragma once
#include "kinora/abi/tensor.h"

namespace kinora::core {

// Throws exceptions. f.drop is called exactly once in any case.
void apply_function(const kinora_function& f, const kinora_tensor* in, kinora_tensor* out);

}  // namespace kinora::core
