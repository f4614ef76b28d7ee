// Operators of libtorch by name: kinora_value <-> the dispatcher's boxed values.
#pragma once
#include <cstdint>

#include "kinora/abi/tensor.h"

namespace kinora::core {

// [any-thread] kinora_tensors_api.call_op, but throws exceptions.
void call_operator(const char* name, const char* overload, const kinora_value* args, uint64_t n_args,
                   kinora_value* out, uint64_t n_out);

// kinora_tensors_api.release_value.
void release_value(kinora_value* v);

}  // namespace kinora::core
