// Decoding for AVX2: a scale has sixteen results, one a code, so they are looked up.
#include "kernels/fp4/rows_table.hpp"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <cstring>
#include <immintrin.h>

#pragma GCC push_options
#pragma GCC target("avx2")

namespace kinora::fp4_detail {
namespace {

using fp4::Bfloat16;
using fp4::kBlock;

// Tables of the results of one scale, by code: for float32, of magnitudes; for bfloat16, of their lower bytes
// and of their upper bytes.
template <class T>
struct Results;
template <>
struct Results<float> {
  alignas(32) float of[256][8];
  void fill(uint32_t scale, float by) {
    for (uint32_t code = 0; code < 8; ++code) of[scale][code] = fp4::mul(fp4::e2m1_value(code), by);
  }
};
template <>
struct Results<Bfloat16> {
  alignas(16) uint8_t lower[256][16], upper[256][16];
  void fill(uint32_t scale, float by) {
    for (uint32_t code = 0; code < 16; ++code) {
      Bfloat16 x;
      fp4::assign(x, fp4::mul(fp4::e2m1_value(code), by));
      lower[scale][code] = static_cast<uint8_t>(x.bits),
      upper[scale][code] = static_cast<uint8_t>(x.bits >> 8);
    }
  }
};

template <bool kStream>
void put(__m256i v, void* to) {
  if (kStream)
    _mm256_stream_si256(static_cast<__m256i*>(to), v);
  else
    _mm256_storeu_si256(static_cast<__m256i*>(to), v);
}

// 32 values: 16 bytes of codes, of two blocks.
template <bool kStream>
void decode(const Results<float>& results, const uint8_t* codes, uint32_t scale0, uint32_t scale1,
            float* to) {
  const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  for (int eighth = 0; eighth < 4; ++eighth) {
    int word;
    std::memcpy(&word, codes + 4 * eighth, 4);
    const __m256i each = _mm256_srlv_epi32(_mm256_set1_epi32(word), shifts);
    const __m256 all = _mm256_load_ps(results.of[eighth < 2 ? scale0 : scale1]);
    const __m256i signs = _mm256_slli_epi32(_mm256_and_si256(each, _mm256_set1_epi32(8)), 28);
    const __m256i magnitudes = _mm256_castps_si256(_mm256_permutevar8x32_ps(all, each));
    put<kStream>(_mm256_xor_si256(magnitudes, signs), to + 8 * eighth);
  }
}

__m256i two(const void* low, const void* high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_load_si128(static_cast<const __m128i*>(low))),
                                 _mm_load_si128(static_cast<const __m128i*>(high)), 1);
}

template <bool kStream>
void decode(const Results<Bfloat16>& results, const uint8_t* codes, uint32_t scale0, uint32_t scale1,
            Bfloat16* to) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)), low = _mm_set1_epi8(15);
  const __m128i even = _mm_and_si128(bytes, low), odd = _mm_and_si128(_mm_srli_epi16(bytes, 4), low);
  const __m256i each = _mm256_set_m128i(_mm_unpackhi_epi8(even, odd), _mm_unpacklo_epi8(even, odd));
  const __m256i lower = _mm256_shuffle_epi8(two(results.lower[scale0], results.lower[scale1]), each);
  const __m256i upper = _mm256_shuffle_epi8(two(results.upper[scale0], results.upper[scale1]), each);
  const __m256i first = _mm256_unpacklo_epi8(lower, upper), second = _mm256_unpackhi_epi8(lower, upper);
  put<kStream>(_mm256_permute2x128_si256(first, second, 0x20), to);
  put<kStream>(_mm256_permute2x128_si256(first, second, 0x31), to + 16);
}

// Whole pairs of blocks, then what is left of a row by a copy.
template <bool kStream, class T>
void decode_rows(const fp4::Shape& n, const Results<T>& results, const uint8_t* codes, const uint8_t* scales,
                 bool swizzled, T* x) {
  const int64_t blocks = blocks_a_row(n), bytes = code_bytes_a_row(n);
  for (int64_t row = 0; row < n.rows; ++row)
    for (int64_t block = 0; block < blocks; block += 2) {
      const int64_t last = block + 1 < blocks ? block + 1 : block, left = n.cols - block * kBlock;
      const uint32_t scale0 = scales[fp4::scale_place(blocks, swizzled, row, block)],
                     scale1 = scales[fp4::scale_place(blocks, swizzled, row, last)];
      const uint8_t* from = codes + row * bytes + block * 8;
      T* to = x + row * n.cols + block * kBlock;
      if (left >= 2 * kBlock) {
        decode<kStream>(results, from, scale0, scale1, to);
        continue;
      }
      uint8_t padded[16] = {};
      T decoded[2 * kBlock];
      std::memcpy(padded, from, static_cast<size_t>((left + 1) / 2));
      decode<false>(results, padded, scale0, scale1, decoded);
      std::memcpy(to, decoded, static_cast<size_t>(left) * sizeof(T));
    }
}

}  // namespace

template <class T>
void dequantize_avx2(const fp4::Shape& n, const uint8_t* codes, const uint8_t* scales, bool swizzled,
                     float global_scale, T* x) {
  Results<T> results;
  for (uint32_t scale = 0; scale < 256; ++scale)
    results.fill(scale, fp4::decode_multiply(scale, global_scale));
  constexpr int64_t kLine = 32 / sizeof(T);
  const bool large = n.rows * n.cols * int64_t{sizeof(T)} >= kStreamFrom;
  if (large && n.cols % kLine == 0 && reinterpret_cast<uintptr_t>(x) % 32 == 0) {
    decode_rows<true>(n, results, codes, scales, swizzled, x);
    _mm_sfence();
  } else {
    decode_rows<false>(n, results, codes, scales, swizzled, x);
  }
}

}  // namespace kinora::fp4_detail
#pragma GCC pop_options

namespace kinora::fp4_detail {
template void dequantize_avx2(const fp4::Shape&, const uint8_t*, const uint8_t*, bool, float, float*);
template void dequantize_avx2(const fp4::Shape&, const uint8_t*, const uint8_t*, bool, float, Bfloat16*);
}  // namespace kinora::fp4_detail
#endif
