// The rows that gain by AVX-512, 64 columns at a time. The two divisions of the hue and saturation, which
// cost most of the AVX2 form, become look-ups: a table of 256 numbers of three bytes fits in twelve
// registers, and VBMI picks 64 bytes from four of them in three instructions. Every result equals the integer
// formula in content_score_rows.hpp.
#include "kernels/cpu/content_score_rows.hpp"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))

#include <immintrin.h>

#define KINORA_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi")))
#define KINORA_AVX512_INLINE \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi"), always_inline)) inline

namespace kinora::content_score_detail {
namespace {

KINORA_AVX512_INLINE __m512i load64(const void* at) { return _mm512_loadu_si512(at); }

// The first, second and third byte of 256 reciprocals.
struct ByteTable {
  alignas(64) uint8_t byte[3][256];
};

const ByteTable* byte_table(const std::array<int32_t, 256>& reciprocals) {
  auto* table = new ByteTable;
  for (size_t i = 0; i < 256; ++i)
    for (int k = 0; k < 3; ++k) table->byte[k][i] = static_cast<uint8_t>(reciprocals[i] >> (8 * k));
  return table;
}

KINORA_AVX512_INLINE __m512i look_up(const uint8_t* table, __m512i index) {
  const __m512i low = _mm512_permutex2var_epi8(load64(table), index, load64(table + 64));
  const __m512i high = _mm512_permutex2var_epi8(load64(table + 128), index, load64(table + 192));
  return _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high);
}

// Sixty-four values in 16 bits, in the order in which bytes are unpacked; packing restores their order.
struct Words {
  __m512i low;
  __m512i high;
};

KINORA_AVX512_INLINE Words unpacked(__m512i a, __m512i b) {
  return {_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b)};
}

// (factor * reciprocal + 2048) >> 12 of 32 factors of 16 bits.
KINORA_AVX512_INLINE __m512i scaled(__m512i factors, __m512i reciprocals_low, __m512i reciprocals_high) {
  const __m512i zero = _mm512_setzero_si512(), half = _mm512_set1_epi32(2048);
  const __m512i low = _mm512_srai_epi32(_mm512_unpacklo_epi16(zero, factors), 16);
  const __m512i high = _mm512_srai_epi32(_mm512_unpackhi_epi16(zero, factors), 16);
  const __m512i by_low = _mm512_unpacklo_epi16(reciprocals_low, reciprocals_high);
  const __m512i by_high = _mm512_unpackhi_epi16(reciprocals_low, reciprocals_high);
  return _mm512_packs_epi32(_mm512_srai_epi32(_mm512_add_epi32(_mm512_mullo_epi32(low, by_low), half), 12),
                            _mm512_srai_epi32(_mm512_add_epi32(_mm512_mullo_epi32(high, by_high), half), 12));
}

KINORA_AVX512_INLINE Words scaled_by(const Words& factors, const ByteTable& table, __m512i index) {
  const Words low = unpacked(look_up(table.byte[0], index), look_up(table.byte[1], index));
  const Words high = unpacked(look_up(table.byte[2], index), _mm512_setzero_si512());
  return {scaled(factors.low, low.low, high.low), scaled(factors.high, low.high, high.high)};
}

// The hue's numerator is a difference of two channels and 0, 2 or 4 times the chroma; red wins a tie for the
// maximum, then green.
KINORA_AVX512_INLINE Words hue_numerator(__m512i b, __m512i g, __m512i r, __m512i value, __m512i chroma) {
  const __mmask64 red = _mm512_cmpeq_epu8_mask(value, r), green = _mm512_cmpeq_epu8_mask(value, g);
  const __m512i minuend = _mm512_mask_blend_epi8(red, _mm512_mask_blend_epi8(green, r, b), g);
  const __m512i subtrahend = _mm512_mask_blend_epi8(red, _mm512_mask_blend_epi8(green, g, r), b);
  const __m512i sextants = _mm512_mask_blend_epi8(
      red, _mm512_mask_blend_epi8(green, _mm512_set1_epi8(4), _mm512_set1_epi8(2)), _mm512_setzero_si512());
  const Words pairs = unpacked(minuend, subtrahend);
  const Words steps = unpacked(sextants, _mm512_setzero_si512());
  const Words chromas = unpacked(chroma, _mm512_setzero_si512());
  const __m512i minus = _mm512_set1_epi16(static_cast<short>(0xFF01));  // 1, -1
  return {
      _mm512_add_epi16(_mm512_maddubs_epi16(pairs.low, minus), _mm512_maddubs_epi16(chromas.low, steps.low)),
      _mm512_add_epi16(_mm512_maddubs_epi16(pairs.high, minus),
                       _mm512_maddubs_epi16(chromas.high, steps.high))};
}

KINORA_AVX512_INLINE __m512i wrapped(__m512i hue) {
  return _mm512_mask_add_epi16(hue, _mm512_movepi16_mask(hue), hue, _mm512_set1_epi16(180));
}

KINORA_AVX512 void to_hsv(PlanarRow bgr, int n, PlanarRow hsv) {
  static const ByteTable* const saturation_table = byte_table(hsv_tables().saturation);
  static const ByteTable* const hue_table = byte_table(hsv_tables().hue);
  int x = 0;
  for (; x + 64 <= n; x += 64) {
    const __m512i b = load64(bgr.first + x), g = load64(bgr.second + x), r = load64(bgr.third + x);
    const __m512i value = _mm512_max_epu8(_mm512_max_epu8(b, g), r);
    const __m512i chroma = _mm512_sub_epi8(value, _mm512_min_epu8(_mm512_min_epu8(b, g), r));
    const Words saturation = scaled_by(unpacked(chroma, _mm512_setzero_si512()), *saturation_table, value);
    const Words hue = scaled_by(hue_numerator(b, g, r, value, chroma), *hue_table, chroma);
    _mm512_storeu_si512(hsv.first + x, _mm512_packus_epi16(wrapped(hue.low), wrapped(hue.high)));
    _mm512_storeu_si512(hsv.second + x, _mm512_packus_epi16(saturation.low, saturation.high));
    _mm512_storeu_si512(hsv.third + x, value);
  }
  avx2_rows()->to_hsv({bgr.first + x, bgr.second + x, bgr.third + x}, n - x,
                      {hsv.first + x, hsv.second + x, hsv.third + x});
}

KINORA_AVX512 uint64_t replace(uint8_t* before, const uint8_t* now, int n) {
  __m512i sums = _mm512_setzero_si512();
  int i = 0;
  for (; i + 64 <= n; i += 64) {
    const __m512i fresh = load64(now + i);
    sums = _mm512_add_epi64(sums, _mm512_sad_epu8(load64(before + i), fresh));
    _mm512_storeu_si512(before + i, fresh);
  }
  return static_cast<uint64_t>(_mm512_reduce_add_epi64(sums)) +
         avx2_rows()->replace(before + i, now + i, n - i);
}

KINORA_AVX512_INLINE Words centred(__m512i samples, __m512i offset) {
  const __m512i zero = _mm512_setzero_si512();
  return {_mm512_sub_epi16(_mm512_slli_epi16(_mm512_unpacklo_epi8(samples, zero), 3), offset),
          _mm512_sub_epi16(_mm512_slli_epi16(_mm512_unpackhi_epi8(samples, zero), 3), offset)};
}

// 32 chroma samples times 8, minus their offset.
KINORA_AVX512_INLINE __m512i chroma_row(const uint8_t* at) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  return _mm512_sub_epi16(_mm512_slli_epi16(_mm512_cvtepu8_epi16(bytes), 3),
                          _mm512_set1_epi16(kChromaOffset));
}

KINORA_AVX512 void convert_yuv420(const uint8_t* y, const uint8_t* u, const uint8_t* v, const YuvFactors& f,
                                  int n, PlanarRow bgr) {
  const __m512i y_offset = _mm512_set1_epi16(f.y_offset);
  const __m512i y_factor = _mm512_set1_epi16(f.y);
  const __m512i factors[4] = {_mm512_set1_epi16(f.u_to_b), _mm512_set1_epi16(f.u_to_g),
                              _mm512_set1_epi16(f.v_to_g), _mm512_set1_epi16(f.v_to_r)};
  uint8_t* const planes[3] = {bgr.first, bgr.second, bgr.third};
  int x = 0;
  for (; x + 64 <= n; x += 64) {
    const __m512i blue = chroma_row(u + x / 2), red = chroma_row(v + x / 2);
    const __m512i parts[3] = {
        _mm512_mulhi_epi16(blue, factors[0]),
        _mm512_add_epi16(_mm512_mulhi_epi16(blue, factors[1]), _mm512_mulhi_epi16(red, factors[2])),
        _mm512_mulhi_epi16(red, factors[3])};
    const Words luma = centred(load64(y + x), y_offset);
    const __m512i low = _mm512_mulhi_epi16(luma.low, y_factor),
                  high = _mm512_mulhi_epi16(luma.high, y_factor);
    for (int c = 0; c < 3; ++c) {
      const __m512i bytes =
          _mm512_packus_epi16(_mm512_add_epi16(low, _mm512_unpacklo_epi16(parts[c], parts[c])),
                              _mm512_add_epi16(high, _mm512_unpackhi_epi16(parts[c], parts[c])));
      _mm512_storeu_si512(planes[c] + x, bytes);
    }
  }
  avx2_rows()->convert_yuv420(y + x, u + x / 2, v + x / 2, f, n - x,
                              {bgr.first + x, bgr.second + x, bgr.third + x});
}

}  // namespace

const RowKernels* avx512_rows() {
  static const RowKernels* const rows = []() -> const RowKernels* {
    if (avx2_rows() == nullptr || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512vbmi"))
      return nullptr;
    static RowKernels table = *avx2_rows();
    table.to_hsv = to_hsv;
    table.convert_yuv420 = convert_yuv420;
    table.replace = replace;
    return &table;
  }();
  return rows;
}

}  // namespace kinora::content_score_detail

#else

namespace kinora::content_score_detail {
const RowKernels* avx512_rows() { return nullptr; }
}  // namespace kinora::content_score_detail

#endif
