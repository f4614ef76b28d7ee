// The content score's rows with AVX2. Works on blocks of sixteen scaled columns: their 32 source samples are
// gathered as bytes, converted in 16 bits, and packed back with signed saturation as sample - 128. That is
// the clamp to a byte, and it lets the byte multiply-add take weights up to 128 as its unsigned side: the
// horizontal filter works in sixteenths of its weights, and adds their remainders if a plan has any. Every
// result equals the integer formula in content_score_rows.hpp.
#include "kernels/cpu/content_score_rows.hpp"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))

#include <immintrin.h>

#define KINORA_AVX2 __attribute__((target("avx2")))
#define KINORA_AVX2_INLINE __attribute__((target("avx2"), always_inline)) inline

namespace kinora::content_score_detail {
namespace {

KINORA_AVX2_INLINE __m128i load16(const void* at) { return _mm_loadu_si128(static_cast<const __m128i*>(at)); }
KINORA_AVX2_INLINE __m256i load32(const void* at) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(at));
}
KINORA_AVX2_INLINE void store16(void* at, __m128i value) {
  _mm_storeu_si128(static_cast<__m128i*>(at), value);
}

// The 32 samples of a block in each of kPlanes rows that share a plan.
template <size_t kPlanes>
KINORA_AVX2_INLINE void gather(const GatherPlan& plan, int block,
                               const std::array<const uint8_t*, kPlanes>& rows, __m256i (&samples)[kPlanes]) {
  for (__m256i& plane : samples) plane = _mm256_setzero_si256();
  const size_t first = static_cast<size_t>(block) * plan.windows;
  for (size_t i = first; i < first + plan.windows; ++i) {
    const __m256i shuffle = load32(plan.shuffle[i].data());
    const auto [low_offset, high_offset] = plan.offset[i];
    for (size_t p = 0; p < kPlanes; ++p) {
      const __m256i low = _mm256_castsi128_si256(load16(rows[p] + low_offset));
      const __m256i both = _mm256_inserti128_si256(low, load16(rows[p] + high_offset), 1);
      samples[p] = _mm256_or_si256(samples[p], _mm256_shuffle_epi8(both, shuffle));
    }
  }
}

// Thirty-two values in 16 bits, in the order in which bytes are unpacked; packing restores their order.
struct Wide {
  __m256i low;
  __m256i high;
};

struct WideBgr {
  Wide b;
  Wide g;
  Wide r;
};

struct WideFactors {
  __m256i y_offset;
  __m256i chroma_offset;
  __m256i y;
  __m256i v_to_r;
  __m256i u_to_b;
  __m256i u_to_g;
  __m256i v_to_g;
};

KINORA_AVX2_INLINE WideFactors widen(const YuvFactors& f) {
  return {_mm256_set1_epi16(f.y_offset), _mm256_set1_epi16(kChromaOffset), _mm256_set1_epi16(f.y),
          _mm256_set1_epi16(f.v_to_r),   _mm256_set1_epi16(f.u_to_b),      _mm256_set1_epi16(f.u_to_g),
          _mm256_set1_epi16(f.v_to_g)};
}

// Samples times 8, minus their offset.
KINORA_AVX2_INLINE Wide centred(__m256i samples, __m256i offset) {
  const __m256i zero = _mm256_setzero_si256();
  return {_mm256_sub_epi16(_mm256_slli_epi16(_mm256_unpacklo_epi8(samples, zero), 3), offset),
          _mm256_sub_epi16(_mm256_slli_epi16(_mm256_unpackhi_epi8(samples, zero), 3), offset)};
}

KINORA_AVX2_INLINE Wide times(const Wide& a, __m256i factor) {
  return {_mm256_mulhi_epi16(a.low, factor), _mm256_mulhi_epi16(a.high, factor)};
}

KINORA_AVX2_INLINE Wide plus(const Wide& a, const Wide& b) {
  return {_mm256_add_epi16(a.low, b.low), _mm256_add_epi16(a.high, b.high)};
}

// The chroma term that is added to luma.
KINORA_AVX2_INLINE WideBgr chroma_part(const WideFactors& f, const __m256i (&samples)[2]) {
  const Wide u = centred(samples[0], f.chroma_offset);
  const Wide v = centred(samples[1], f.chroma_offset);
  return {times(u, f.u_to_b), plus(times(u, f.u_to_g), times(v, f.v_to_g)), times(v, f.v_to_r)};
}

// Luma minus the 128 by which the packed samples are shifted.
KINORA_AVX2_INLINE Wide luma_part(const WideFactors& f, __m256i samples) {
  const Wide luma = times(centred(samples, f.y_offset), f.y);
  const __m256i shift = _mm256_set1_epi16(128);
  return {_mm256_sub_epi16(luma.low, shift), _mm256_sub_epi16(luma.high, shift)};
}

KINORA_AVX2_INLINE __m256i shifted_bytes(const Wide& values) {
  return _mm256_packs_epi16(values.low, values.high);
}

// Horizontal filter of a block without the four low bits, which the vertical one drops. It adds back the
// amount that the shift by 128 took from the sum: 128 * 128 if the coarse weights are the whole weights,
// which sum to 128.
template <bool kFine>
KINORA_AVX2_INLINE __m256i filter_columns(const ResizePlan& plan, int block, __m256i shifted) {
  const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(32) * block;
  const __m256i weights = load32(plan.coarse_weights.data() + at);
  const __m256i sum = _mm256_maddubs_epi16(weights, shifted);
  if constexpr (!kFine) return _mm256_add_epi16(sum, _mm256_set1_epi16(128 * 128));
  const __m256i shift = _mm256_set1_epi8(static_cast<char>(0x80));
  const __m256i rest =
      _mm256_maddubs_epi16(_mm256_xor_si256(shifted, shift), load32(plan.fine_weights.data() + at));
  return _mm256_add_epi16(_mm256_sub_epi16(sum, _mm256_maddubs_epi16(weights, shift)),
                          _mm256_srli_epi16(rest, 4));
}

// Vertical filter of a block, from the horizontal sums of its one or two source rows.
template <int kRows>
KINORA_AVX2_INLINE void filter_rows(const LinearTap& tap, const __m256i* sums, uint8_t* out) {
  __m256i sum = _mm256_mulhi_epi16(sums[0], _mm256_set1_epi16(tap.first_weight));
  if constexpr (kRows == 2) {
    sum = _mm256_add_epi16(sum, _mm256_mulhi_epi16(sums[1], _mm256_set1_epi16(tap.second_weight)));
  }
  sum = _mm256_srai_epi16(_mm256_add_epi16(sum, _mm256_set1_epi16(2)), 2);
  const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(sum, sum), 0x08);
  store16(out, _mm256_castsi256_si128(bytes));
}

// kRows is 1 where the second source row has weight 0, as at every odd whole factor
// such as 1280 / 256.
template <int kRows, bool kFine>
KINORA_AVX2 void sample_yuv420_rows(const ResizePlan& plan, const Yuv420View& frame,
                                    const YuvFactors& factors, const LinearTap& tap, PlanarRow out) {
  const WideFactors f = widen(factors);
  const int rows[2] = {tap.first, tap.second};
  std::array<const uint8_t*, kRows> luma;
  std::array<std::array<const uint8_t*, 2>, kRows> chroma;
  for (int i = 0; i < kRows; ++i) {
    luma[i] = frame.y + rows[i] * frame.y_stride;
    chroma[i] = {frame.u + rows[i] / 2 * frame.u_stride, frame.v + rows[i] / 2 * frame.v_stride};
  }
  for (int block = 0; block * 16 < plan.scaled.width; ++block) {
    __m256i b[kRows];
    __m256i g[kRows];
    __m256i r[kRows];
    WideBgr from_chroma{};
    __m256i luma_samples[kRows];
    __m256i chroma_samples[2];
    gather(plan.luma, block, luma, luma_samples);
    for (int i = 0; i < kRows; ++i) {
      if (i == 0 || chroma[0] != chroma[1]) {
        gather(plan.chroma, block, chroma[i], chroma_samples);
        from_chroma = chroma_part(f, chroma_samples);
      }
      const Wide y = luma_part(f, luma_samples[i]);
      b[i] = filter_columns<kFine>(plan, block, shifted_bytes(plus(y, from_chroma.b)));
      g[i] = filter_columns<kFine>(plan, block, shifted_bytes(plus(y, from_chroma.g)));
      r[i] = filter_columns<kFine>(plan, block, shifted_bytes(plus(y, from_chroma.r)));
    }
    filter_rows<kRows>(tap, b, out.first + static_cast<std::ptrdiff_t>(16) * block);
    filter_rows<kRows>(tap, g, out.second + static_cast<std::ptrdiff_t>(16) * block);
    filter_rows<kRows>(tap, r, out.third + static_cast<std::ptrdiff_t>(16) * block);
  }
}

KINORA_AVX2 void sample_yuv420(const ResizePlan& plan, const Yuv420View& frame, const YuvFactors& factors,
                               int y, PlanarRow out) {
  const LinearTap& tap = plan.rows[y];
  const bool one = tap.second_weight == 0;
  const auto sample = plan.any_fine_weight
                          ? (one ? sample_yuv420_rows<1, true> : sample_yuv420_rows<2, true>)
                          : (one ? sample_yuv420_rows<1, false> : sample_yuv420_rows<2, false>);
  sample(plan, frame, factors, tap, out);
}

template <int kRows>
KINORA_AVX2 void sample_bgr_rows(const ResizePlan& plan, BgrView frame, const LinearTap& tap, PlanarRow out) {
  std::array<const uint8_t*, kRows> rows;
  rows[0] = frame.data + tap.first * frame.stride;
  if constexpr (kRows == 2) rows[1] = frame.data + tap.second * frame.stride;
  uint8_t* const planes[3] = {out.first, out.second, out.third};
  const __m256i shift = _mm256_set1_epi8(static_cast<char>(0x80));
  for (int block = 0; block * 16 < plan.scaled.width; ++block) {
    for (int c = 0; c < 3; ++c) {
      __m256i sums[kRows];
      __m256i samples[kRows];
      gather(plan.bgr[c], block, rows, samples);
      for (int i = 0; i < kRows; ++i) {
        sums[i] = filter_columns<true>(plan, block, _mm256_xor_si256(samples[i], shift));
      }
      filter_rows<kRows>(tap, sums, planes[c] + static_cast<std::ptrdiff_t>(16) * block);
    }
  }
}

KINORA_AVX2 void sample_bgr(const ResizePlan& plan, BgrView frame, int y, PlanarRow out) {
  const LinearTap& tap = plan.rows[y];
  const auto sample = tap.second_weight == 0 ? sample_bgr_rows<1> : sample_bgr_rows<2>;
  sample(plan, frame, tap, out);
}

// Byte masks between sixteen interleaved pixels (three registers) and three planes, computed at compile time.
struct Masks {
  alignas(16) uint8_t mask[3][3][16];  // [register of the interleaved side][channel]
};
constexpr Masks split_masks() {
  Masks m{};
  for (int part = 0; part < 3; ++part) {
    for (int c = 0; c < 3; ++c) {
      for (int x = 0; x < 16; ++x) {
        const int byte = 3 * x + c - 16 * part;
        m.mask[part][c][x] = byte >= 0 && byte < 16 ? static_cast<uint8_t>(byte) : 0x80;
      }
    }
  }
  return m;
}

KINORA_AVX2 void split(const uint8_t* interleaved, int n, PlanarRow bgr) {
  static constexpr Masks kMasks = split_masks();
  uint8_t* const planes[3] = {bgr.first, bgr.second, bgr.third};
  int x = 0;
  for (; x + 16 <= n; x += 16) {
    const uint8_t* at = interleaved + static_cast<std::ptrdiff_t>(3) * x;
    const __m128i parts[3] = {load16(at), load16(at + 16), load16(at + 32)};
    for (int c = 0; c < 3; ++c) {
      __m128i plane = _mm_shuffle_epi8(parts[0], load16(kMasks.mask[0][c]));
      plane = _mm_or_si128(plane, _mm_shuffle_epi8(parts[1], load16(kMasks.mask[1][c])));
      plane = _mm_or_si128(plane, _mm_shuffle_epi8(parts[2], load16(kMasks.mask[2][c])));
      store16(planes[c] + x, plane);
    }
  }
  plain_rows().split(interleaved + static_cast<std::ptrdiff_t>(3) * x, n - x,
                     {bgr.first + x, bgr.second + x, bgr.third + x});
}

// OpenCV's reciprocals, rint(numerator / divisor) for numerators 255 << 12 and 30 << 12. The float quotient q
// / d keeps a distance of 1 / (2 d) from every half, as 2^12 divides q, and its rounding moves it by q / d *
// 2^-24 at most, which is less. Divisor 0 yields a value that the caller multiplies by zero.
KINORA_AVX2_INLINE __m256i reciprocal(int numerator, __m256i divisor) {
  const __m256 quotient =
      _mm256_div_ps(_mm256_set1_ps(static_cast<float>(numerator)), _mm256_cvtepi32_ps(divisor));
  return _mm256_cvtps_epi32(quotient);
}

// A product without its 12 fractional bits, rounded.
KINORA_AVX2_INLINE __m256i scaled(__m256i factor, __m256i by) {
  return _mm256_srai_epi32(_mm256_add_epi32(_mm256_mullo_epi32(factor, by), _mm256_set1_epi32(2048)), 12);
}

// The hue's numerator in 16 bits: red wins a tie for the maximum, then green.
KINORA_AVX2_INLINE __m256i hue_numerator(__m256i b, __m256i g, __m256i r, __m256i value, __m256i chroma) {
  const __m256i from_red = _mm256_sub_epi16(g, b);
  const __m256i from_green = _mm256_add_epi16(_mm256_sub_epi16(b, r), _mm256_slli_epi16(chroma, 1));
  const __m256i from_blue = _mm256_add_epi16(_mm256_sub_epi16(r, g), _mm256_slli_epi16(chroma, 2));
  const __m256i not_red = _mm256_blendv_epi8(from_blue, from_green, _mm256_cmpeq_epi16(value, g));
  return _mm256_blendv_epi8(not_red, from_red, _mm256_cmpeq_epi16(value, r));
}

KINORA_AVX2 void to_hsv(PlanarRow bgr, int n, PlanarRow hsv) {
  const __m256i zero = _mm256_setzero_si256();
  int x = 0;
  for (; x + 16 <= n; x += 16) {
    const __m128i b = load16(bgr.first + x);
    const __m128i g = load16(bgr.second + x);
    const __m128i r = load16(bgr.third + x);
    const __m128i value_bytes = _mm_max_epu8(_mm_max_epu8(b, g), r);
    const __m128i chroma_bytes = _mm_sub_epi8(value_bytes, _mm_min_epu8(_mm_min_epu8(b, g), r));
    const __m256i value = _mm256_cvtepu8_epi16(value_bytes);
    const __m256i chroma = _mm256_cvtepu8_epi16(chroma_bytes);
    const __m256i numerator = hue_numerator(_mm256_cvtepu8_epi16(b), _mm256_cvtepu8_epi16(g),
                                            _mm256_cvtepu8_epi16(r), value, chroma);
    // Unpacking to 32 bits and packing again keeps the order of pixels.
    const __m256i low_chroma = _mm256_unpacklo_epi16(chroma, zero);
    const __m256i high_chroma = _mm256_unpackhi_epi16(chroma, zero);
    const __m256i saturation = _mm256_packs_epi32(
        scaled(low_chroma, reciprocal(kSaturationOne, _mm256_unpacklo_epi16(value, zero))),
        scaled(high_chroma, reciprocal(kSaturationOne, _mm256_unpackhi_epi16(value, zero))));
    const __m256i low_numerator = _mm256_srai_epi32(_mm256_unpacklo_epi16(zero, numerator), 16);
    const __m256i high_numerator = _mm256_srai_epi32(_mm256_unpackhi_epi16(zero, numerator), 16);
    __m256i hue = _mm256_packs_epi32(scaled(low_numerator, reciprocal(kSextant, low_chroma)),
                                     scaled(high_numerator, reciprocal(kSextant, high_chroma)));
    hue = _mm256_add_epi16(hue, _mm256_and_si256(_mm256_srai_epi16(hue, 15), _mm256_set1_epi16(180)));
    const __m256i both = _mm256_permute4x64_epi64(_mm256_packus_epi16(hue, saturation), 0xD8);
    store16(hsv.first + x, _mm256_castsi256_si128(both));
    store16(hsv.second + x, _mm256_extracti128_si256(both, 1));
    store16(hsv.third + x, value_bytes);
  }
  plain_rows().to_hsv({bgr.first + x, bgr.second + x, bgr.third + x}, n - x,
                      {hsv.first + x, hsv.second + x, hsv.third + x});
}

KINORA_AVX2 uint64_t absolute_difference(const uint8_t* a, const uint8_t* b, int n) {
  __m256i sums = _mm256_setzero_si256();
  int i = 0;
  for (; i + 32 <= n; i += 32) sums = _mm256_add_epi64(sums, _mm256_sad_epu8(load32(a + i), load32(b + i)));
  alignas(32) uint64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sums);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3] + plain_rows().absolute_difference(a + i, b + i, n - i);
}

KINORA_AVX2 uint64_t replace(uint8_t* before, const uint8_t* now, int n) {
  __m256i sums = _mm256_setzero_si256();
  int i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i fresh = load32(now + i);
    sums = _mm256_add_epi64(sums, _mm256_sad_epu8(load32(before + i), fresh));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(before + i), fresh);
  }
  alignas(32) uint64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sums);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3] + plain_rows().replace(before + i, now + i, n - i);
}

KINORA_AVX2 uint64_t sum(const uint8_t* a, int n) {
  __m256i sums = _mm256_setzero_si256();
  int i = 0;
  for (; i + 32 <= n; i += 32)
    sums = _mm256_add_epi64(sums, _mm256_sad_epu8(load32(a + i), _mm256_setzero_si256()));
  alignas(32) uint64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sums);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3] + plain_rows().sum(a + i, n - i);
}

// Each chroma sample serves two columns: unpacking it with itself doubles it.
KINORA_AVX2_INLINE Wide doubled(__m256i part) {
  return {_mm256_unpacklo_epi16(part, part), _mm256_unpackhi_epi16(part, part)};
}

// 16 chroma samples times 8, minus their offset.
KINORA_AVX2_INLINE __m256i chroma_row(const uint8_t* at) {
  return _mm256_sub_epi16(_mm256_slli_epi16(_mm256_cvtepu8_epi16(load16(at)), 3),
                          _mm256_set1_epi16(kChromaOffset));
}

KINORA_AVX2 void convert_yuv420(const uint8_t* y, const uint8_t* u, const uint8_t* v,
                                const YuvFactors& factors, int n, PlanarRow bgr) {
  const WideFactors f = widen(factors);
  const __m256i back = _mm256_set1_epi8(static_cast<char>(0x80));
  uint8_t* const planes[3] = {bgr.first, bgr.second, bgr.third};
  int x = 0;
  for (; x + 32 <= n; x += 32) {
    const __m256i blue = chroma_row(u + x / 2), red = chroma_row(v + x / 2);
    const __m256i parts[3] = {
        _mm256_mulhi_epi16(blue, f.u_to_b),
        _mm256_add_epi16(_mm256_mulhi_epi16(blue, f.u_to_g), _mm256_mulhi_epi16(red, f.v_to_g)),
        _mm256_mulhi_epi16(red, f.v_to_r)};
    const Wide luma = luma_part(f, load32(y + x));
    for (int c = 0; c < 3; ++c) {
      const __m256i bytes = shifted_bytes(plus(luma, doubled(parts[c])));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(planes[c] + x), _mm256_xor_si256(bytes, back));
    }
  }
  plain_rows().convert_yuv420(y + x, u + x / 2, v + x / 2, factors, n - x,
                              {bgr.first + x, bgr.second + x, bgr.third + x});
}

// Eight weighted sums of green and red, blue and a rounding constant, without kShift fractional bits.
template <int kShift>
KINORA_AVX2_INLINE __m256i weighed(__m256i green_and_red, __m256i blue_and_one, __m256i gr_weights,
                                   __m256i b1_weights) {
  return _mm256_srli_epi32(_mm256_add_epi32(_mm256_madd_epi16(green_and_red, gr_weights),
                                            _mm256_madd_epi16(blue_and_one, b1_weights)),
                           kShift);
}

template <int kShift>
KINORA_AVX2_INLINE void weigh(PlanarRow bgr, int x, __m256i gr_weights, __m256i b1_weights, uint8_t* out) {
  const __m256i b = _mm256_cvtepu8_epi16(load16(bgr.first + x)), one = _mm256_set1_epi16(1);
  const __m256i g = _mm256_cvtepu8_epi16(load16(bgr.second + x));
  const __m256i r = _mm256_cvtepu8_epi16(load16(bgr.third + x));
  const __m256i words = _mm256_packs_epi32(
      weighed<kShift>(_mm256_unpacklo_epi16(g, r), _mm256_unpacklo_epi16(b, one), gr_weights, b1_weights),
      weighed<kShift>(_mm256_unpackhi_epi16(g, r), _mm256_unpackhi_epi16(b, one), gr_weights, b1_weights));
  const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(words, words), 0x08);
  store16(out + x, _mm256_castsi256_si128(bytes));
}

KINORA_AVX2 void to_luma(PlanarRow bgr, int n, uint8_t* luma) {
  const __m256i green_and_red = _mm256_set1_epi32(9617 | 4899 << 16);
  const __m256i blue_and_one = _mm256_set1_epi32(1868 | 8192 << 16);
  int x = 0;
  for (; x + 16 <= n; x += 16) weigh<14>(bgr, x, green_and_red, blue_and_one, luma);
  plain_rows().to_luma({bgr.first + x, bgr.second + x, bgr.third + x}, n - x, luma + x);
}

KINORA_AVX2 void to_grey(PlanarRow bgr, int n, uint8_t* grey) {
  const __m256i green_and_red = _mm256_set1_epi32(19235 | 9798 << 16);
  const __m256i blue_and_one = _mm256_set1_epi32(3735 | 16384 << 16);
  int x = 0;
  for (; x + 16 <= n; x += 16) weigh<15>(bgr, x, green_and_red, blue_and_one, grey);
  plain_rows().to_grey({bgr.first + x, bgr.second + x, bgr.third + x}, n - x, grey + x);
}

}  // namespace

const RowKernels* avx2_rows() {
  static constexpr RowKernels kRows = {sample_yuv420,  sample_bgr, split,   to_hsv, absolute_difference,
                                       convert_yuv420, to_luma,    to_grey, sum,    replace};
  return __builtin_cpu_supports("avx2") ? &kRows : nullptr;
}

}  // namespace kinora::content_score_detail

#else

namespace kinora::content_score_detail {
const RowKernels* avx2_rows() { return nullptr; }
}  // namespace kinora::content_score_detail

#endif
