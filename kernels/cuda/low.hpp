// Translates a kinora_cuda_low (kinora/abi/cuda.h) into options of the kernels of fp4.hpp and fp8.hpp.
#pragma once
#include "kernels/fp4/quantize.hpp"
#include "kernels/fp8/quantize.hpp"
#include "kinora/abi/cuda.h"

namespace kinora::cuda {

inline bool low_is(const kinora_cuda_low& how, uint32_t flag) { return (how.flags & flag) != 0; }

inline fp4::Options fp4_options(const kinora_cuda_low& how) {
  fp4::Options o;
  o.rule = static_cast<fp4::ScaleRule>(how.rule);
  o.square = low_is(how, KINORA_LOW_SQUARE);
  o.hadamard = low_is(how, KINORA_LOW_HADAMARD);
  o.stochastic = low_is(how, KINORA_LOW_STOCHASTIC);
  o.swizzled = low_is(how, KINORA_LOW_SWIZZLED);
  o.column_major = low_is(how, KINORA_LOW_COLUMN_MAJOR);
  o.noise = {how.noise_seed, how.noise_stream, how.noise_row, how.noise_col};
  return o;
}

inline fp8::Options fp8_options(const kinora_cuda_low& how) {
  fp8::Options o;
  o.format = how.format == KINORA_LOW_E4M3 ? fp8::Format::e4m3 : fp8::Format::e5m2;
  o.scaling = static_cast<fp8::Scaling>(how.scaling);
  o.rule = static_cast<fp8::ScaleRule>(how.rule);
  o.swizzled = low_is(how, KINORA_LOW_SWIZZLED);
  o.column_major = low_is(how, KINORA_LOW_COLUMN_MAJOR);
  return o;
}

// Whether all values are known.
inline bool low_is_known(const kinora_cuda_low& how) {
  const uint32_t fp8_flags = KINORA_LOW_SWIZZLED | KINORA_LOW_COLUMN_MAJOR,
                 fp4_flags = fp8_flags | KINORA_LOW_SQUARE | KINORA_LOW_HADAMARD | KINORA_LOW_STOCHASTIC;
  if (how.format == KINORA_LOW_NVFP4)
    return how.scaling == 0 && how.rule <= 5 && (how.flags & ~fp4_flags) == 0 && how.noise_col % 16 == 0;
  return how.format <= KINORA_LOW_E5M2 && how.scaling <= 3 && how.rule <= 2 && (how.flags & ~fp8_flags) == 0;
}

inline bool low_is_nvfp4(const kinora_cuda_low& how) { return how.format == KINORA_LOW_NVFP4; }
inline bool low_is_mx(const kinora_cuda_low& how) {
  return !low_is_nvfp4(how) && how.scaling == static_cast<uint32_t>(fp8::Scaling::mx);
}
// One scale of the whole matrix, which is not among the scales.
inline bool low_is_one_scale(const kinora_cuda_low& how) {
  return !low_is_nvfp4(how) && how.scaling == static_cast<uint32_t>(fp8::Scaling::tensor);
}
inline int64_t low_code_bytes(const kinora_cuda_low& how, const fp4::Shape& n) {
  return low_is_nvfp4(how) ? fp4::code_bytes(n) : n.rows * n.cols;
}
inline int64_t low_scale_bytes(const kinora_cuda_low& how, const fp4::Shape& n) {
  if (low_is_nvfp4(how)) return fp4::scale_bytes(n, low_is(how, KINORA_LOW_SWIZZLED));
  return low_is_one_scale(how)
             ? 0
             : fp8::scale_bytes(n, fp8_options(how).scaling, low_is(how, KINORA_LOW_SWIZZLED));
}

}  // namespace kinora::cuda
