#include "kernels/fp4/quantize.hpp"

#include <cstring>

#include "kernels/fp4/rows_table.hpp"

namespace kinora::fp4 {

template <class T>
Amax find_amax(const Shape& n, const T* x, bool hadamard, bool column_major) {
  if (const auto* rows = fp4_detail::rows_for<T>()) return rows->find_amax(n, x, hadamard, column_major);
  return reference::find_amax(n, x, hadamard, column_major);
}

template <class T>
float quantize(const Shape& n, const T* x, const Options& options, float amax, uint8_t* codes,
               uint8_t* scales) {
  const auto* rows = fp4_detail::rows_for<T>();
  if (!rows) return reference::quantize(n, x, options, amax, codes, scales);
  const TensorScale tensor = tensor_scale(options.rule, amax);
  if (options.swizzled) std::memset(scales, 0, static_cast<size_t>(scale_bytes(n, true)));
  rows->quantize(n, x, options, tensor, codes, scales);
  return tensor.global;
}

template <class T>
void dequantize(const Shape& n, const uint8_t* codes, const uint8_t* scales, bool swizzled,
                float global_scale, T* x) {
  if (const auto* rows = fp4_detail::rows_for<T>())
    return rows->dequantize(n, codes, scales, swizzled, global_scale, x);
  reference::dequantize(n, codes, scales, swizzled, global_scale, x);
}

template Amax find_amax(const Shape&, const float*, bool, bool);
template Amax find_amax(const Shape&, const Bfloat16*, bool, bool);
template float quantize(const Shape&, const float*, const Options&, float, uint8_t*, uint8_t*);
template float quantize(const Shape&, const Bfloat16*, const Options&, float, uint8_t*, uint8_t*);
template void dequantize(const Shape&, const uint8_t*, const uint8_t*, bool, float, float*);
template void dequantize(const Shape&, const uint8_t*, const uint8_t*, bool, float, Bfloat16*);

}  // namespace kinora::fp4
