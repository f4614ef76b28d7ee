// Private to the content score: the integer formulas of one pixel, and the row functions of the fast
// path. Row functions work on planar rows, as vector code requires.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/content_score.hpp"

namespace kinora::content_score_detail {

// libswscale's factors for 16-bit SIMD: a sample times 8, minus its offset, times the factor; the
// upper 16 bits of the product are kept.
struct YuvFactors {
  int16_t y_offset;
  int16_t y;
  int16_t v_to_r;
  int16_t u_to_b;
  int16_t u_to_g;
  int16_t v_to_g;
};
YuvFactors yuv_factors(const YuvMatrix& matrix);

inline constexpr int kChromaOffset = 128 * 8;

inline int multiply_high(int a, int b) { return (a * b) >> 16; }

inline uint8_t clamp_to_byte(int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); }

inline std::array<uint8_t, 3> yuv_to_bgr(const YuvFactors& f, int y, int u, int v) {
  const int luma = multiply_high(y * 8 - f.y_offset, f.y);
  const int blue_difference = u * 8 - kChromaOffset;
  const int red_difference = v * 8 - kChromaOffset;
  return {clamp_to_byte(luma + multiply_high(blue_difference, f.u_to_b)),
          clamp_to_byte(luma + multiply_high(blue_difference, f.u_to_g) +
                        multiply_high(red_difference, f.v_to_g)),
          clamp_to_byte(luma + multiply_high(red_difference, f.v_to_r))};
}

// OpenCV's 8-bit bilinear: `top` and `bottom` are horizontal sums with 11-bit weights.
inline int horizontal(const LinearTap& tap, int first, int second) {
  return first * tap.first_weight + second * tap.second_weight;
}
inline uint8_t vertical(const LinearTap& tap, int top, int bottom) {
  return static_cast<uint8_t>(
      (multiply_high(tap.first_weight, top >> 4) + multiply_high(tap.second_weight, bottom >> 4) + 2) >> 2);
}

// Reciprocals with 12 fractional bits: 255 / i for the saturation, 30 / i for the hue (180 steps, six
// sextants). Entry 0 multiplies a zero.
inline constexpr int kSaturationOne = 255 << 12;
inline constexpr int kSextant = 30 << 12;
struct HsvTables {
  std::array<int32_t, 256> saturation;
  std::array<int32_t, 256> hue;
};
const HsvTables& hsv_tables();

inline std::array<uint8_t, 3> bgr_to_hsv_pixel(const HsvTables& tables, int b, int g, int r) {
  const int value = std::max({b, g, r});
  const int chroma = value - std::min({b, g, r});
  const int saturation = (chroma * tables.saturation[value] + 2048) >> 12;
  int hue = value == r ? g - b : value == g ? b - r + 2 * chroma : r - g + 4 * chroma;
  hue = (hue * tables.hue[chroma] + 2048) >> 12;
  if (hue < 0) hue += 180;
  return {static_cast<uint8_t>(hue), static_cast<uint8_t>(saturation), static_cast<uint8_t>(value)};
}

struct PlanarRow {
  uint8_t* first;  // b or hue
  uint8_t* second;
  uint8_t* third;
};

// Row `y` of the scaled frame. `sample_*` may write up to the next multiple of kRowPadding columns; the
// others write exactly `n` pixels.
inline constexpr int kRowPadding = 16;
struct RowKernels {
  void (*sample_yuv420)(const ResizePlan&, const Yuv420View&, const YuvFactors&, int y, PlanarRow bgr);
  void (*sample_bgr)(const ResizePlan&, BgrView, int y, PlanarRow bgr);
  void (*split)(const uint8_t* interleaved, int n, PlanarRow bgr);
  void (*to_hsv)(PlanarRow bgr, int n, PlanarRow hsv);
  uint64_t (*absolute_difference)(const uint8_t* a, const uint8_t* b, int n);
  // A row that is not scaled; u and v have one sample for every two of y.
  void (*convert_yuv420)(const uint8_t* y, const uint8_t* u, const uint8_t* v, const YuvFactors&, int n,
                         PlanarRow bgr);
  // Y of OpenCV's BGR2YUV, and its BGR2GRAY: the same weights, kept with 14 and with 15 fractional bits.
  void (*to_luma)(PlanarRow bgr, int n, uint8_t* luma);
  void (*to_grey)(PlanarRow bgr, int n, uint8_t* grey);
  uint64_t (*sum)(const uint8_t* a, int n);
  // absolute_difference(before, now, n); afterwards `before` contains `now`.
  uint64_t (*replace)(uint8_t* before, const uint8_t* now, int n);
};

inline uint8_t luma_of(int b, int g, int r) {
  return static_cast<uint8_t>((4899 * r + 9617 * g + 1868 * b + 8192) >> 14);
}
inline uint8_t grey_of(int b, int g, int r) {
  return static_cast<uint8_t>((9798 * r + 19235 * g + 3735 * b + 16384) >> 15);
}

const RowKernels& plain_rows();
// Null if the processor or the build does not support AVX2. Its sample_* need a plan with gathers.
const RowKernels* avx2_rows();
// The same with AVX-512 for the rows that gain by it; null if the processor does not support VBMI.
const RowKernels* avx512_rows();
// The fastest rows for this processor and plan (null: no sampling will be requested).
const RowKernels& rows_for(const ResizePlan* plan);

inline int padded_width(int width) { return (width + kRowPadding - 1) / kRowPadding * kRowPadding; }

}  // namespace kinora::content_score_detail
