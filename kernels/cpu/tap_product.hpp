// The sum of several products: out[i] = bias + sum over taps t of rows_t[i] * matrix_t. A convolution over an
// image that has a border of zeros is one: its taps are the same rows at other offsets.
//
// Shapes: M rows, K numbers a row and tap, N outputs.
#pragma once
#include <cstdint>
#include <vector>

namespace kinora {

constexpr int64_t kPanel = 16;  // N is a multiple

struct TapShape {
  int64_t taps, depth, outputs;  // T, K, N
};

// matrix: [N, T, K], row-major. Returns it in the order that tap_product reads: [N / 16, T, K, 16].
std::vector<float> pack_taps(const TapShape& shape, const float* matrix);

struct TapRows {
  const float* const* taps;  // [T]: the first row of each
  int64_t rows, stride;      // M; numbers from one row to the next
};

// packed: of pack_taps(); bias: [N], or null for none; relu: negative results become 0. out: [M, N], its rows
// out_stride apart. [any-thread] Chooses AVX-512 or AVX2 at run time; the last bits depend on it.
void tap_product(const TapShape& shape, const TapRows& in, const float* packed, const float* bias, bool relu,
                 float* out, int64_t out_stride);

// The same by plain loops, in double precision.
void tap_product_reference(const TapShape& shape, const TapRows& in, const float* packed, const float* bias,
                           bool relu, float* out, int64_t out_stride);

}  // namespace kinora
