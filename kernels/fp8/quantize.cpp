#include "kernels/fp8/quantize.hpp"

#include <cstring>

#include "kernels/fp8/rows_table.hpp"

namespace kinora::fp8 {

template <class T>
uint64_t quantize(const Shape& n, const T* x, const Options& o, float amax, uint8_t* codes, void* scales) {
  const auto* rows = fp8_detail::rows_for<T>();
  if (!rows) return reference::quantize(n, x, o, amax, codes, scales);
  if (o.scaling == Scaling::mx && o.swizzled)
    std::memset(scales, 0, static_cast<size_t>(scale_bytes(n, o.scaling, true)));
  return rows->quantize(n, x, o, amax, codes, scales);
}

template <class T>
void dequantize(const Shape& n, const uint8_t* codes, const void* scales, const Options& o, T* x) {
  if (const auto* rows = fp8_detail::rows_for<T>()) return rows->dequantize(n, codes, scales, o, x);
  reference::dequantize(n, codes, scales, o, x);
}

template uint64_t quantize(const Shape&, const float*, const Options&, float, uint8_t*, void*);
template uint64_t quantize(const Shape&, const Bfloat16*, const Options&, float, uint8_t*, void*);
template void dequantize(const Shape&, const uint8_t*, const void*, const Options&, float*);
template void dequantize(const Shape&, const uint8_t*, const void*, const Options&, Bfloat16*);

}  // namespace kinora::fp8
