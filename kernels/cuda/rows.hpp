// Rows of tensors as the kernels of this folder take them.
#pragma once
#include <cstdint>
#include <cuda_runtime_api.h>

namespace kinora::cuda {

enum class Number : int32_t { float32, bfloat16 };

// [B, S, D] with D contiguous; strides in elements, 0 along a broadcast dimension.
struct RowsIn {
  const void* data;
  int64_t sample, token;
};

// B, S, D and the dtype of the inputs and of the gradients of whole tensors. B * S is below 2^31.
struct RowsShape {
  int64_t samples, tokens, width;
  Number number;
};

// The dimensions along which an input has one row, so that its gradient is a sum over them.
struct Broadcast {
  bool samples, tokens;
};

// Gradients of inputs [B or 1, S or 1, D] are float32 and contiguous; they are summed in an order that
// depends only on the shape. Room for one such sum, in numbers: what a kernel calls `partial` has room for as
// many as the kernel sums.
int64_t sum_partial(const RowsShape&, Broadcast over);

}  // namespace kinora::cuda
