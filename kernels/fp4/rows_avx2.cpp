// Every operation here is the one of block.hpp, eight values at a time. What is included is compiled for
// every processor, since the linker keeps one copy of an inline function; what follows the pragma, for AVX2.
#include "kernels/fp4/rows_table.hpp"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <cstring>
#include <immintrin.h>

#include "kernels/fp4/block.hpp"
#include "kernels/fp4/hadamard.hpp"

#pragma GCC push_options
#pragma GCC target("avx2")

namespace kinora::fp4_detail {
namespace {

using fp4::Bfloat16;
using fp4::kBlock;
using fp4::scale_place;
using fp4::ScaleRule;
using fp4::TensorScale;

// Values 0-7 and 8-15 of a block.
struct Block {
  __m256 low, high;
};

__m256 magnitude(__m256 x) { return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff))); }

__m256 load8(const float* x) { return _mm256_loadu_ps(x); }
__m256 load8(const Bfloat16* x) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

// n of 16 values; the others are zeros.
template <class T>
Block load(const T* x, int64_t n) {
  if (n == kBlock) return {load8(x), load8(x + 8)};
  T padded[16] = {};
  for (int64_t i = 0; i < n; ++i) padded[i] = x[i];
  return {load8(padded), load8(padded + 8)};
}

float max_of(__m256 x) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

struct Max {
  __m256 operator()(__m256 a, __m256 b) const { return _mm256_max_ps(a, b); }
};
struct Sum {
  __m256 operator()(__m256 a, __m256 b) const { return _mm256_add_ps(a, b); }
};

// Lane i: the lanes of e[i] combined, those at distance 4 first, then 2, then 1.
template <class Op>
__m256 combine(const __m256 (&e)[8], Op op) {
  __m256 by4[4], by2[2];
  for (int i = 0; i < 4; ++i)
    by4[i] = op(_mm256_permute2f128_ps(e[i], e[i + 4], 0x20), _mm256_permute2f128_ps(e[i], e[i + 4], 0x31));
  for (int i = 0; i < 2; ++i)
    by2[i] = op(_mm256_shuffle_ps(by4[2 * i], by4[2 * i + 1], 0x44),
                _mm256_shuffle_ps(by4[2 * i], by4[2 * i + 1], 0xee));
  return op(_mm256_shuffle_ps(by2[0], by2[1], 0x88), _mm256_shuffle_ps(by2[0], by2[1], 0xdd));
}
// a + b in the lanes of `signs` that are +0, a - b in those that are -0.
__m256 butterfly(__m256 a, __m256 b, __m256 signs) { return _mm256_add_ps(a, _mm256_xor_ps(b, signs)); }

__m256 hadamard8(__m256 v) {
  const __m256 by4 = _mm256_setr_ps(0, 0, 0, 0, -0.0f, -0.0f, -0.0f, -0.0f);
  const __m256 by2 = _mm256_setr_ps(0, 0, -0.0f, -0.0f, 0, 0, -0.0f, -0.0f);
  const __m256 by1 = _mm256_setr_ps(0, -0.0f, 0, -0.0f, 0, -0.0f, 0, -0.0f);
  v = butterfly(_mm256_permute2f128_ps(v, v, 1), v, by4);
  v = _mm256_mul_ps(v, _mm256_set1_ps(0.25f));
  v = butterfly(_mm256_shuffle_ps(v, v, 0x4e), v, by2);
  return butterfly(_mm256_shuffle_ps(v, v, 0xb1), v, by1);
}

template <int kFirst>
__m256 flipped(__m256 x) {
  const auto bit = [](int i) { return fp4::kNegativeSigns >> (kFirst + i) & 1 ? -0.0f : 0.0f; };
  return _mm256_xor_ps(x, _mm256_setr_ps(bit(0), bit(1), bit(2), bit(3), bit(4), bit(5), bit(6), bit(7)));
}

Block transformed(const Block& x) {
  const __m256 low = flipped<0>(x.low), high = flipped<8>(x.high);
  return {hadamard8(_mm256_add_ps(low, high)), hadamard8(_mm256_sub_ps(low, high))};
}

// Codes of magnitudes, 0 to 7. Adding 2^22 times the power of two below a (at least 1) leaves the distance of
// two codes as the last place of the sum: 0.5 below 2, 1 below 4, then 2. The code is what was added there,
// plus 2 for each doubling.
__m256i nearest(__m256 a) {
  const __m256i one = _mm256_set1_epi32(0x3f800000);
  a = _mm256_min_ps(a, _mm256_set1_ps(fp4::kLargestE2m1));
  const __m256i exponent = _mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32(0x7f800000));
  const __m256i power = _mm256_max_epi32(exponent, one);
  const __m256i large = _mm256_add_epi32(power, _mm256_set1_epi32(22 << 23));
  const __m256i sum = _mm256_castps_si256(_mm256_add_ps(a, _mm256_castsi256_ps(large)));
  const __m256i doublings = _mm256_srli_epi32(_mm256_sub_epi32(power, one), 22);
  return _mm256_add_epi32(_mm256_sub_epi32(sum, large), doublings);
}

__m256 values_of(__m256i codes) {
  const __m256 table = _mm256_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6);
  const __m256i signs = _mm256_slli_epi32(_mm256_and_si256(codes, _mm256_set1_epi32(8)), 28);
  return _mm256_or_ps(_mm256_permutevar8x32_ps(table, codes), _mm256_castsi256_ps(signs));
}

// Eight blocks in a row, and what each needs of its scale.
constexpr int kGroup = 8;
struct Scales {
  __m256i codes;
  __m256 values, multiply;
};

__m256i e4m3_codes(__m256 x) {
  const __m256 limited = _mm256_min_ps(x, _mm256_set1_ps(fp4::kLargestE4m3));
  const __m256i bits = _mm256_castps_si256(limited);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 20), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7ffff)));
  const __m256i normal = _mm256_sub_epi32(_mm256_srli_epi32(rounded, 20), _mm256_set1_epi32(120 << 3));
  const __m256 steps = _mm256_add_ps(limited, _mm256_set1_ps(0x1p14f));  // of 2^-9
  const __m256i small = _mm256_sub_epi32(_mm256_castps_si256(steps), _mm256_set1_epi32(0x46800000));
  const __m256 is_small = _mm256_cmp_ps(limited, _mm256_set1_ps(0x1p-6f), _CMP_LT_OQ);
  return _mm256_blendv_epi8(normal, small, _mm256_castps_si256(is_small));
}

__m256 e4m3_values(__m256i codes) {
  const __m256i normal = _mm256_add_epi32(_mm256_slli_epi32(codes, 20), _mm256_set1_epi32(120 << 23));
  const __m256 small = _mm256_mul_ps(_mm256_cvtepi32_ps(codes), _mm256_set1_ps(0x1p-9f));
  const __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(8), codes);
  return _mm256_blendv_ps(_mm256_castsi256_ps(normal), small, _mm256_castsi256_ps(is_small));
}

// block_scale() of scale.hpp.
Scales scales_of(ScaleRule rule, const TensorScale& tensor, __m256 amax, float stretch) {
  __m256 exact;
  if (rule == ScaleRule::none)
    exact = _mm256_mul_ps(amax, _mm256_set1_ps(tensor.encode * (1.0f / 6)));
  else
    exact = _mm256_mul_ps(_mm256_div_ps(amax, _mm256_set1_ps(rule == ScaleRule::static_4 ? 4.0f : 6.0f)),
                          _mm256_set1_ps(tensor.encode));
  if (stretch != 1) exact = _mm256_mul_ps(exact, _mm256_set1_ps(stretch));
  const __m256i codes = e4m3_codes(exact), zeros = _mm256_cmpeq_epi32(codes, _mm256_setzero_si256());
  const __m256 values = e4m3_values(codes);
  const __m256 multiply =
      _mm256_div_ps(_mm256_set1_ps(1), _mm256_mul_ps(values, _mm256_set1_ps(tensor.decode)));
  return {codes, values, _mm256_andnot_ps(_mm256_castsi256_ps(zeros), multiply)};
}

__m256 errors(ScaleRule rule, __m256 v, const TensorScale& tensor, float value, float multiply) {
  const __m256i codes = nearest(magnitude(_mm256_mul_ps(v, _mm256_set1_ps(multiply))));
  const __m256 decoded = _mm256_mul_ps(values_of(codes), _mm256_set1_ps(value));
  const __m256 e =
      magnitude(_mm256_sub_ps(decoded, _mm256_mul_ps(magnitude(v), _mm256_set1_ps(tensor.encode))));
  return rule == ScaleRule::mse ? _mm256_mul_ps(e, e) : e;
}

__m256 errors_of(ScaleRule rule, const Block (&v)[kGroup], const TensorScale& tensor, const Scales& scales) {
  alignas(32) float values[kGroup], multiply[kGroup];
  _mm256_store_ps(values, scales.values);
  _mm256_store_ps(multiply, scales.multiply);
  __m256 e[kGroup];
  for (int i = 0; i < kGroup; ++i) {
    const __m256 low = errors(rule, v[i].low, tensor, values[i], multiply[i]);
    const __m256 high = errors(rule, v[i].high, tensor, values[i], multiply[i]);
    e[i] = rule == ScaleRule::abs_max ? _mm256_max_ps(low, high) : _mm256_add_ps(low, high);
  }
  return rule == ScaleRule::abs_max ? combine(e, Max()) : combine(e, Sum());
}

Scales choose_scales(ScaleRule rule, const Block (&v)[kGroup], const TensorScale& tensor) {
  __m256 most[kGroup];
  for (int i = 0; i < kGroup; ++i) most[i] = _mm256_max_ps(magnitude(v[i].low), magnitude(v[i].high));
  const __m256 amax = combine(most, Max());
  const Scales six = scales_of(rule, tensor, amax, 1);
  if (!is_adaptive(rule)) return six;
  const Scales four = scales_of(rule, tensor, amax, 1.5f);
  const __m256 better =
      _mm256_cmp_ps(errors_of(rule, v, tensor, four), errors_of(rule, v, tensor, six), _CMP_LT_OQ);
  return {_mm256_blendv_epi8(six.codes, four.codes, _mm256_castps_si256(better)),
          _mm256_blendv_ps(six.values, four.values, better),
          _mm256_blendv_ps(six.multiply, four.multiply, better)};
}

__m256i signed_codes(__m256 v, float multiply) {
  const __m256i signs = _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(v), 28), _mm256_set1_epi32(8));
  return _mm256_or_si256(nearest(magnitude(_mm256_mul_ps(v, _mm256_set1_ps(multiply)))), signs);
}

// 16 codes, the first in the lowest nibble.
uint64_t packed(const Block& v, float multiply) {
  __m256i codes = _mm256_packus_epi32(signed_codes(v.low, multiply), signed_codes(v.high, multiply));
  codes = _mm256_permute4x64_epi64(codes, 0xd8);
  const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1));
  const __m128i pairs = _mm_maddubs_epi16(bytes, _mm_set1_epi16(0x1001));
  return static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_packus_epi16(pairs, pairs)));
}

void store_codes(uint64_t codes, int64_t bytes, uint8_t* to) {
  if (bytes == 8) {
    std::memcpy(to, &codes, 8);
    return;
  }
  for (int64_t i = 0; i < bytes; ++i) to[i] = static_cast<uint8_t>(codes >> 8 * i);
}

// f(row, block, first column, values)
template <class F>
void for_blocks(const fp4::Shape& n, F f) {
  for (int64_t row = 0; row < n.rows; ++row)
    for (int64_t block = 0, col = 0; col < n.cols; ++block, col += kBlock)
      f(row, block, col, n.cols - col < kBlock ? n.cols - col : kBlock);
}

int finite_lanes(__m256 v) {
  const __m256 infinity = _mm256_set1_ps(fp4::float_of(fp4::kInfinity));
  return _mm256_movemask_ps(_mm256_cmp_ps(magnitude(v), infinity, _CMP_LT_OQ));
}
int non_finite(const Block& v) {
  return 16 - __builtin_popcount(finite_lanes(v.low) | finite_lanes(v.high) << 8);
}

__m256 finite_or_zero(__m256 v) {
  const __m256 infinity = _mm256_set1_ps(fp4::float_of(fp4::kInfinity));
  return _mm256_and_ps(v, _mm256_cmp_ps(magnitude(v), infinity, _CMP_LT_OQ));
}

template <class T>
fp4::Amax find_amax(const fp4::Shape& n, const T* x, bool hadamard) {
  fp4::Amax amax;
  __m256 most = _mm256_setzero_ps();
  for_blocks(n, [&](int64_t row, int64_t, int64_t col, int64_t cols) {
    Block v = load(x + row * n.cols + col, cols);
    int bad = non_finite(v);
    if (hadamard && cols == kBlock) {
      v = transformed(v);
      if (bad == 0) bad = non_finite(v);
    }
    amax.non_finite += static_cast<uint64_t>(bad);
    if (bad) v = {finite_or_zero(v.low), finite_or_zero(v.high)};
    most = _mm256_max_ps(most, _mm256_max_ps(magnitude(v.low), magnitude(v.high)));
  });
  amax.value = max_of(most);
  return amax;
}

// Values of column col and on; blocks past the end are zeros.
template <class T>
void load_group(const T* row, int64_t cols, int64_t col, bool hadamard, float first, Block (&v)[kGroup]) {
  for (Block& block : v) {
    const int64_t left = cols - col;
    block = left > 0 ? load(row + col, left < kBlock ? left : kBlock)
                     : Block{_mm256_setzero_ps(), _mm256_setzero_ps()};
    if (hadamard && left >= kBlock) block = transformed(block);
    if (first != 1) {
      const __m256 by = _mm256_set1_ps(first);
      block = {_mm256_mul_ps(block.low, by), _mm256_mul_ps(block.high, by)};
    }
    col += kBlock;
  }
}

template <class T>
void quantize(const fp4::Shape& n, const T* x, const fp4::Options& options, const TensorScale& tensor,
              uint8_t* codes, uint8_t* scales) {
  const ScaleRule rule = options.rule;
  const bool hadamard = options.hadamard, swizzled = options.swizzled;
  const int64_t blocks = blocks_a_row(n), bytes = code_bytes_a_row(n);
  for (int64_t row = 0; row < n.rows; ++row)
    for (int64_t block = 0; block < blocks; block += kGroup) {
      Block v[kGroup];
      load_group(x + row * n.cols, n.cols, block * kBlock, hadamard, tensor.first, v);
      const Scales found = choose_scales(rule, v, tensor);
      alignas(32) int32_t scale[kGroup];
      alignas(32) float multiply[kGroup];
      _mm256_store_si256(reinterpret_cast<__m256i*>(scale), found.codes);
      _mm256_store_ps(multiply, found.multiply);
      for (int64_t i = 0; i < kGroup && block + i < blocks; ++i) {
        const int64_t at = (block + i) * 8;
        scales[scale_place(blocks, swizzled, row, block + i)] = static_cast<uint8_t>(scale[i]);
        store_codes(packed(v[i], multiply[i]), bytes - at < 8 ? bytes - at : 8, codes + row * bytes + at);
      }
    }
}

void store8(__m256 v, float* to) { _mm256_storeu_ps(to, v); }
void store8(__m256 v, Bfloat16* to) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i high = _mm256_srli_epi32(rounded, 16);
  const __m256i both = _mm256_permute4x64_epi64(_mm256_packus_epi32(high, high), 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(both));
}

// Eight codes of a word.
__m256i unpacked(uint32_t codes) {
  const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  return _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32(static_cast<int>(codes)), shifts),
                          _mm256_set1_epi32(15));
}

template <class T>
void dequantize(const fp4::Shape& n, const uint8_t* codes, const uint8_t* scales, bool swizzled, float global,
                T* x) {
  const int64_t blocks = blocks_a_row(n), bytes = code_bytes_a_row(n);
  float multiply[256];
  for (uint32_t code = 0; code < 256; ++code) multiply[code] = fp4::decode_multiply(code, global);
  for_blocks(n, [&](int64_t row, int64_t block, int64_t col, int64_t cols) {
    uint32_t words[2] = {};
    std::memcpy(words, codes + row * bytes + block * 8, static_cast<size_t>((cols + 1) / 2));
    const __m256 by = _mm256_set1_ps(multiply[scales[scale_place(blocks, swizzled, row, block)]]);
    const __m256 low = _mm256_mul_ps(values_of(unpacked(words[0])), by),
                 high = _mm256_mul_ps(values_of(unpacked(words[1])), by);
    T* to = x + row * n.cols + col;
    T last[16];
    T* at = cols == kBlock ? to : last;
    store8(low, at);
    store8(high, at + 8);
    if (cols != kBlock) std::memcpy(to, last, static_cast<size_t>(cols) * sizeof(T));
  });
}

}  // namespace
}  // namespace kinora::fp4_detail
#pragma GCC pop_options

namespace kinora::fp4_detail {
namespace {

template <class T>
const RowKernels<T>* chosen() {
  static constexpr RowKernels<T> kKernels = {find_amax<T>, quantize<T>, dequantize<T>};
  return __builtin_cpu_supports("avx2") ? &kKernels : nullptr;
}

}  // namespace

template <>
const RowKernels<float>* avx2_rows() {
  return chosen<float>();
}
template <>
const RowKernels<Bfloat16>* avx2_rows() {
  return chosen<Bfloat16>();
}

}  // namespace kinora::fp4_detail
#else
namespace kinora::fp4_detail {
template <>
const RowKernels<float>* avx2_rows() {
  return nullptr;
}
template <>
const RowKernels<fp4::Bfloat16>* avx2_rows() {
  return nullptr;
}
}  // namespace kinora::fp4_detail
#endif
