// FP8 on the device: what kernels/fp8/quantize.hpp does on the processor, with the same bits, in one pass over
// x. For full speed, x and codes start at multiples of 16 bytes and cols is a multiple of 16.
//
// All functions enqueue on `stream` and return the launch's error; of an empty matrix they write nothing but
// *non_finite. T: float or fp8::Bfloat16. x [rows, cols], or [cols, rows] if column_major, is contiguous.
#pragma once
#include <cuda_runtime_api.h>

#include "kernels/fp4/quantize.hpp"
#include "kernels/fp8/quantize.hpp"

namespace kinora::cuda {

// codes [rows, cols], scales [fp8::scale_bytes()] and *non_finite, the count of values that are not finite, are
// on the device, as is *amax (fp4_amax without a transform), which Scaling::tensor alone reads. The caller must
// refuse x if *non_finite is not 0.
template <class T>
cudaError_t fp8_quantize(const fp8::Shape&, const T* x, const fp8::Options&, const fp4::Amax* amax,
                         uint8_t* codes, void* scales, unsigned long long* non_finite, cudaStream_t stream);

// x [rows, cols].
template <class T>
cudaError_t fp8_dequantize(const fp8::Shape&, const uint8_t* codes, const void* scales, const fp8::Options&,
                           T* x, cudaStream_t stream);

}  // namespace kinora::cuda
