#include "kernels/fp8/quantize.hpp"

namespace kinora::fp8 {

template <class T>
uint64_t quantize(const Shape& n, const T* x, const Options& o, float amax, uint8_t* codes, void* scales) {
  return reference::quantize(n, x, o, amax, codes, scales);
}

template <class T>
void dequantize(const Shape& n, const uint8_t* codes, const void* scales, const Options& o, T* x) {
  reference::dequantize(n, codes, scales, o, x);
}

template uint64_t quantize(const Shape&, const float*, const Options&, float, uint8_t*, void*);
template uint64_t quantize(const Shape&, const Bfloat16*, const Options&, float, uint8_t*, void*);
template void dequantize(const Shape&, const uint8_t*, const void*, const Options&, float*);
template void dequantize(const Shape&, const uint8_t*, const void*, const Options&, Bfloat16*);

}  // namespace kinora::fp8
