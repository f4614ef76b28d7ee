// The specification: formulas of scale.hpp in plain loops over blocks, roundings by comparison with
// neighbours.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/fp8/quantize.hpp"

namespace kinora::fp8::reference {
namespace {

// The finite magnitudes of a format in the order of their codes.
template <Format kFormat>
const auto& magnitudes() {
  using N = Numbers<kFormat>;
  static const auto kAll = [] {
    std::array<double, N::kFirstSpecial> all = {};
    constexpr int kSteps = 1 << N::kMantissa;
    for (int code = 0; code < static_cast<int>(all.size()); ++code) {
      const int exponent = code / kSteps, fraction = code % kSteps;
      const double significand = (exponent > 0 ? 1.0 : 0.0) + static_cast<double>(fraction) / kSteps;
      all[static_cast<size_t>(code)] = std::ldexp(significand, std::max(exponent, 1) - N::kBias);
    }
    return all;
  }();
  return kAll;
}

template <Format kFormat>
uint8_t nearest(float x) {
  if (std::isnan(x)) return 0x7f;
  const auto& all = magnitudes<kFormat>();
  const double a = std::fabs(static_cast<double>(x));
  const auto above = std::lower_bound(all.begin(), all.end(), a);
  auto code = static_cast<size_t>(above - all.begin());
  if (code == all.size()) {
    code = all.size() - 1;
  } else if (code > 0) {
    const double middle = (all[code - 1] + all[code]) / 2;
    if (a < middle || (a == middle && code % 2 == 1)) --code;
  }
  return static_cast<uint8_t>(code | (std::signbit(x) ? 0x80 : 0));
}

template <Format kFormat>
float number(uint8_t code) {
  const size_t rest = code & 0x7f;
  const float sign = code & 0x80 ? -1.0f : 1.0f;
  if (rest < magnitudes<kFormat>().size()) return sign * static_cast<float>(magnitudes<kFormat>()[rest]);
  if (kFormat == Format::e5m2 && rest == 0x7c) return sign * INFINITY;
  return std::copysign(NAN, sign);
}

// Rows and columns of the matrix that one scale covers.
struct Area {
  int64_t row, rows, col, cols;
};

template <class F>
void for_areas(const Shape& n, Scaling scaling, F f) {
  const int64_t high = block_rows(scaling), wide = block_cols(scaling);
  for (int64_t row = 0; row < n.rows; row += high)
    for (int64_t col = 0; col < n.cols; col += wide)
      f(Area{row, std::min(high, n.rows - row), col, std::min(wide, n.cols - col)});
}

template <class F>
void for_values(const Area& area, F f) {
  for (int64_t row = area.row; row < area.row + area.rows; ++row)
    for (int64_t col = area.col; col < area.col + area.cols; ++col) f(row, col);
}

void store_scale(Scaling scaling, const Scale& scale, int64_t at, void* scales) {
  if (scaling == Scaling::mx)
    static_cast<uint8_t*>(scales)[at] = static_cast<uint8_t>(scale.exponent);
  else
    static_cast<float*>(scales)[at] = scale.value;
}

float load_scale(Scaling scaling, const void* scales, int64_t at) {
  if (scaling == Scaling::mx) return e8m0_value(static_cast<const uint8_t*>(scales)[at]);
  return static_cast<const float*>(scales)[at];
}

int64_t place_of(const Shape& n, const Options& o, const Area& area) {
  return scale_place(blocks_a_row(n, o.scaling), o.scaling, o.swizzled, area.row,
                     area.col / block_cols(o.scaling));
}

template <Format kFormat, class T>
uint64_t quantize_to(const Shape& n, const T* x, const Options& o, float amax, uint8_t* codes, void* scales) {
  const auto at = [&](int64_t row, int64_t col) {
    return fp4::to_float(x[o.column_major ? col * n.rows + row : row * n.cols + col]);
  };
  const bool tensor = o.scaling == Scaling::tensor;
  if (tensor) store_scale(o.scaling, scale_of<kFormat>(o.scaling, o.rule, amax), 0, scales);
  if (o.scaling == Scaling::mx && o.swizzled)
    std::memset(scales, 0, static_cast<size_t>(scale_bytes(n, o.scaling, true)));
  uint64_t non_finite = 0;
  for_areas(n, o.scaling, [&](const Area& area) {
    float most = 0;
    for_values(area, [&](int64_t row, int64_t col) {
      const float v = at(row, col);
      if (std::isfinite(v))
        most = std::max(most, std::fabs(v));
      else
        ++non_finite;
    });
    const Scale scale = scale_of<kFormat>(o.scaling, o.rule, tensor ? amax : most);
    if (!tensor) store_scale(o.scaling, scale, place_of(n, o, area), scales);
    for_values(area, [&](int64_t row, int64_t col) {
      codes[row * n.cols + col] = nearest<kFormat>(at(row, col) * scale.multiply);
    });
  });
  return non_finite;
}

}  // namespace

template <class T>
uint64_t quantize(const Shape& n, const T* x, const Options& o, float amax, uint8_t* codes, void* scales) {
  return o.format == Format::e4m3 ? quantize_to<Format::e4m3>(n, x, o, amax, codes, scales)
                                  : quantize_to<Format::e5m2>(n, x, o, amax, codes, scales);
}

template <class T>
void dequantize(const Shape& n, const uint8_t* codes, const void* scales, const Options& o, T* x) {
  for_areas(n, o.scaling, [&](const Area& area) {
    const float scale = load_scale(o.scaling, scales, place_of(n, o, area));
    for_values(area, [&](int64_t row, int64_t col) {
      const uint8_t code = codes[row * n.cols + col];
      const float q = o.format == Format::e4m3 ? number<Format::e4m3>(code) : number<Format::e5m2>(code);
      fp4::assign(x[row * n.cols + col], q * scale);
    });
  });
}

template uint64_t quantize(const Shape&, const float*, const Options&, float, uint8_t*, void*);
template uint64_t quantize(const Shape&, const Bfloat16*, const Options&, float, uint8_t*, void*);
template void dequantize(const Shape&, const uint8_t*, const void*, const Options&, float*);
template void dequantize(const Shape&, const uint8_t*, const void*, const Options&, Bfloat16*);

}  // namespace kinora::fp8::reference
