// Decoding for AVX2.
#include "kernels/fp8/rows_table.hpp"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <cstring>
#include <immintrin.h>

#pragma GCC push_options
#pragma GCC target("avx2")

namespace kinora::fp8_detail {
namespace {

using fp8::Bfloat16;
using fp8::Format;
using fp8::Numbers;
using fp8::Options;
using fp8::Scaling;
using fp8::Shape;

// Eight finite numbers, times the scale. Their codes, moved below the sign of float32, are numbers with the
// exponent 127 - bias too small; subnormal ones are subnormal too. A product with a power of two is exact.
template <Format kFormat>
__m256 values_of(const uint8_t* codes, __m256 scale) {
  using N = Numbers<kFormat>;
  constexpr int kShift = 23 - N::kMantissa;
  constexpr float kPower = kFormat == Format::e4m3 ? 0x1p120f : 0x1p112f;
  const __m256i wide = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(0x80000000u | 0x7fu << kShift));
  const __m256 number = _mm256_castsi256_ps(_mm256_and_si256(_mm256_slli_epi32(wide, kShift), mask));
  return _mm256_mul_ps(_mm256_mul_ps(number, _mm256_set1_ps(kPower)), scale);
}

template <Format kFormat>
bool all_finite(const uint8_t* codes) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
  const __m256i magnitudes = _mm256_and_si256(bytes, _mm256_set1_epi8(0x7f));
  constexpr auto kLast = static_cast<char>(Numbers<kFormat>::kFirstSpecial - 1);
  return _mm256_movemask_epi8(_mm256_cmpgt_epi8(magnitudes, _mm256_set1_epi8(kLast))) == 0;
}

template <bool kStream>
void put(__m256i v, void* to) {
  if (kStream)
    _mm256_stream_si256(static_cast<__m256i*>(to), v);
  else
    _mm256_storeu_si256(static_cast<__m256i*>(to), v);
}

template <bool kStream>
void put16(__m256 x, __m256 y, float* to) {
  put<kStream>(_mm256_castps_si256(x), to);
  put<kStream>(_mm256_castps_si256(y), to + 8);
}

__m256i rounded(__m256 v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
}
template <bool kStream>
void put16(__m256 x, __m256 y, Bfloat16* to) {
  put<kStream>(_mm256_permute4x64_epi64(_mm256_packus_epi32(rounded(x), rounded(y)), 0xd8), to);
}

template <Format kFormat, class T>
void decode_slowly(const uint8_t* codes, int64_t n, float scale, T* to) {
  for (int64_t i = 0; i < n; ++i) fp4::assign(to[i], fp4::mul(fp8::value_of<kFormat>(codes[i]), scale));
}

template <Format kFormat, bool kStream, class T>
void decode(const uint8_t* codes, int64_t n, float scale, T* to) {
  const __m256 by = _mm256_set1_ps(scale);
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    if (__builtin_expect(!all_finite<kFormat>(codes + i), 0)) {
      decode_slowly<kFormat>(codes + i, 32, scale, to + i);
      continue;
    }
    for (int64_t half = i; half < i + 32; half += 16)
      put16<kStream>(values_of<kFormat>(codes + half, by), values_of<kFormat>(codes + half + 8, by),
                     to + half);
  }
  decode_slowly<kFormat>(codes + i, n - i, scale, to + i);
}

template <Format kFormat, bool kStream, class T>
void decode_rows(const Shape& n, const uint8_t* codes, const void* scales, const Options& o, T* x) {
  const int64_t wide = block_cols(o.scaling), blocks = blocks_a_row(n, o.scaling);
  for (int64_t row = 0; row < n.rows; ++row)
    for (int64_t block = 0, col = 0; block < blocks; ++block, col += wide) {
      const int64_t at = scale_place(blocks, o.scaling, o.swizzled, row, block);
      const float scale = o.scaling == Scaling::mx ? fp8::e8m0_value(static_cast<const uint8_t*>(scales)[at])
                                                   : static_cast<const float*>(scales)[at];
      decode<kFormat, kStream>(codes + row * n.cols + col, n.cols - col < wide ? n.cols - col : wide, scale,
                               x + row * n.cols + col);
    }
}

template <Format kFormat, class T>
void decode_format(const Shape& n, const uint8_t* codes, const void* scales, const Options& o, T* x) {
  constexpr int64_t kLine = 32 / sizeof(T);
  const bool large = n.rows * n.cols * int64_t{sizeof(T)} >= kStreamFrom;
  if (large && n.cols % kLine == 0 && reinterpret_cast<uintptr_t>(x) % 32 == 0) {
    decode_rows<kFormat, true>(n, codes, scales, o, x);
    _mm_sfence();
  } else {
    decode_rows<kFormat, false>(n, codes, scales, o, x);
  }
}

}  // namespace

template <class T>
void dequantize_avx2(const Shape& n, const uint8_t* codes, const void* scales, const Options& o, T* x) {
  if (o.format == Format::e4m3)
    decode_format<Format::e4m3>(n, codes, scales, o, x);
  else
    decode_format<Format::e5m2>(n, codes, scales, o, x);
}

}  // namespace kinora::fp8_detail
#pragma GCC pop_options

namespace kinora::fp8_detail {
template void dequantize_avx2(const fp8::Shape&, const uint8_t*, const void*, const fp8::Options&, float*);
template void dequantize_avx2(const fp8::Shape&, const uint8_t*, const void*, const fp8::Options&,
                              fp8::Bfloat16*);
}  // namespace kinora::fp8_detail
#endif
