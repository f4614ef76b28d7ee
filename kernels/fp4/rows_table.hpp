// The AVX2 forms of quantize.hpp, by rows of 1x16 blocks rounded to nearest.
#pragma once
#include "kernels/fp4/quantize.hpp"

namespace kinora::fp4_detail {

template <class T>
struct RowKernels {
  // As fp4::find_amax.
  fp4::Amax (*find_amax)(const fp4::Shape&, const T* x, bool hadamard);
  // Options without square and stochastic; scales zeroed where they are swizzled.
  void (*quantize)(const fp4::Shape&, const T* x, const fp4::Options&, const fp4::TensorScale&,
                   uint8_t* codes, uint8_t* scales);
  // As fp4::dequantize.
  void (*dequantize)(const fp4::Shape&, const uint8_t* codes, const uint8_t* scales, bool swizzled,
                     float global_scale, T* x);
};

// Null if the compiler or the processor does not support AVX2.
template <class T>
const RowKernels<T>* avx2_rows();

}  // namespace kinora::fp4_detail
