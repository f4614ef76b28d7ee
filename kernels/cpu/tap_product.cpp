#include "kernels/cpu/tap_product.hpp"

#include <algorithm>

#include "kernels/cpu/tap_product_table.hpp"

namespace kinora {

std::vector<float> pack_taps(const TapShape& s, const float* matrix) {
  std::vector<float> out(static_cast<size_t>(s.outputs * s.taps * s.depth));
  const int64_t inner = s.taps * s.depth;
  for (int64_t n = 0; n < s.outputs; ++n)
    for (int64_t k = 0; k < inner; ++k)
      out[static_cast<size_t>((n / kPanel * inner + k) * kPanel + n % kPanel)] = matrix[n * inner + k];
  return out;
}

void tap_product_reference(const TapShape& s, const TapRows& in, const float* packed, const float* bias,
                           bool relu, float* out, int64_t out_stride) {
  for (int64_t n = 0; n < s.outputs; ++n)
    for (int64_t i = 0; i < in.rows; ++i) {
      const float* column = packed + n / kPanel * s.taps * s.depth * kPanel + n % kPanel;
      double sum = bias ? static_cast<double>(bias[n]) : 0.0;
      for (int64_t t = 0; t < s.taps; ++t)
        for (int64_t k = 0; k < s.depth; ++k, column += kPanel)
          sum += static_cast<double>(in.taps[t][i * in.stride + k]) * static_cast<double>(*column);
      out[i * out_stride + n] = static_cast<float>(relu ? std::max(sum, 0.0) : sum);
    }
}

void tap_product(const TapShape& s, const TapRows& in, const float* packed, const float* bias, bool relu,
                 float* out, int64_t out_stride) {
  static const auto chosen = [] {
    if (const auto wide = tap_product_detail::avx512_tap_product()) return wide;
    const auto narrow = tap_product_detail::avx2_tap_product();
    return narrow ? narrow : &tap_product_reference;
  }();
  chosen(s, in, packed, bias, relu, out, out_stride);
}

}  // namespace kinora
