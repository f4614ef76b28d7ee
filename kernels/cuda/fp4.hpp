// NVFP4 on the device: what kernels/fp4/quantize.hpp does on the processor, with the same bits. Two passes
// over x: fp4_amax, and fp4_quantize, which reads its result on the device; with options.hadamard each of
// them transforms the values it reads, so no transformed copy is stored. For full speed, x
// starts at a multiple of 16 bytes and cols is a multiple of 16.
//
// All functions enqueue on `stream` and return the launch's error; fp4_quantize of an empty matrix writes
// nothing. T: float or fp4::Bfloat16. x [rows, cols], or [cols, rows] if column_major, is contiguous.
#pragma once
#include <cuda_runtime_api.h>

#include "kernels/fp4/quantize.hpp"

namespace kinora::cuda {

// *amax is set to fp4::find_amax's result. The caller must refuse x if non_finite is not 0.
template <class T>
cudaError_t fp4_amax(const fp4::Shape&, const T* x, bool hadamard, bool column_major, fp4::Amax* amax,
                     cudaStream_t stream);

// codes [fp4::code_bytes()], scales [fp4::scale_bytes()], global_scale [1]: all on the device, as is *amax.
template <class T>
cudaError_t fp4_quantize(const fp4::Shape&, const T* x, const fp4::Options&, const fp4::Amax* amax,
                         uint8_t* codes, uint8_t* scales, float* global_scale, cudaStream_t stream);

// x [rows, cols]. global_scale [1] on the device.
template <class T>
cudaError_t fp4_dequantize(const fp4::Shape&, const uint8_t* codes, const uint8_t* scales, bool swizzled,
                           const float* global_scale, T* x, cudaStream_t stream);

}  // namespace kinora::cuda
