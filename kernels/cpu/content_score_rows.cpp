// The plain row functions, the tables of the formulas, and the choice between plain and vector code.
#include "kernels/cpu/content_score_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace kinora::content_score_detail {

namespace {

void plain_sample_yuv420(const ResizePlan& plan, const Yuv420View& frame, const YuvFactors& factors, int y,
                         PlanarRow out) {
  const LinearTap& row = plan.rows[y];
  const auto pixel = [&](int source_y, int x) {
    const std::ptrdiff_t chroma_y = source_y / 2;
    return yuv_to_bgr(factors, frame.y[source_y * frame.y_stride + x],
                      frame.u[chroma_y * frame.u_stride + x / 2], frame.v[chroma_y * frame.v_stride + x / 2]);
  };
  uint8_t* const planes[3] = {out.first, out.second, out.third};
  for (int x = 0; x < plan.scaled.width; ++x) {
    const LinearTap& column = plan.columns[x];
    const auto top_first = pixel(row.first, column.first);
    const auto top_second = pixel(row.first, column.second);
    const auto bottom_first = pixel(row.second, column.first);
    const auto bottom_second = pixel(row.second, column.second);
    for (int c = 0; c < 3; ++c) {
      planes[c][x] = vertical(row, horizontal(column, top_first[c], top_second[c]),
                              horizontal(column, bottom_first[c], bottom_second[c]));
    }
  }
}

void plain_sample_bgr(const ResizePlan& plan, BgrView frame, int y, PlanarRow out) {
  const LinearTap& row = plan.rows[y];
  const uint8_t* top = frame.data + row.first * frame.stride;
  const uint8_t* bottom = frame.data + row.second * frame.stride;
  uint8_t* const planes[3] = {out.first, out.second, out.third};
  for (int x = 0; x < plan.scaled.width; ++x) {
    const LinearTap& column = plan.columns[x];
    for (int c = 0; c < 3; ++c) {
      const int first = 3 * column.first + c;
      const int second = 3 * column.second + c;
      planes[c][x] = vertical(row, horizontal(column, top[first], top[second]),
                              horizontal(column, bottom[first], bottom[second]));
    }
  }
}

void plain_split(const uint8_t* interleaved, int n, PlanarRow bgr) {
  for (int x = 0; x < n; ++x) {
    bgr.first[x] = interleaved[3 * x];
    bgr.second[x] = interleaved[3 * x + 1];
    bgr.third[x] = interleaved[3 * x + 2];
  }
}

void plain_to_hsv(PlanarRow bgr, int n, PlanarRow hsv) {
  const HsvTables& tables = hsv_tables();
  for (int x = 0; x < n; ++x) {
    const auto pixel = bgr_to_hsv_pixel(tables, bgr.first[x], bgr.second[x], bgr.third[x]);
    hsv.first[x] = pixel[0];
    hsv.second[x] = pixel[1];
    hsv.third[x] = pixel[2];
  }
}

uint64_t plain_absolute_difference(const uint8_t* a, const uint8_t* b, int n) {
  uint64_t sum = 0;
  for (int i = 0; i < n; ++i) sum += static_cast<uint64_t>(std::abs(a[i] - b[i]));
  return sum;
}

void plain_convert_yuv420(const uint8_t* y, const uint8_t* u, const uint8_t* v, const YuvFactors& factors,
                          int n, PlanarRow bgr) {
  for (int x = 0; x < n; ++x) {
    const auto pixel = yuv_to_bgr(factors, y[x], u[x / 2], v[x / 2]);
    bgr.first[x] = pixel[0];
    bgr.second[x] = pixel[1];
    bgr.third[x] = pixel[2];
  }
}

void plain_to_luma(PlanarRow bgr, int n, uint8_t* luma) {
  for (int x = 0; x < n; ++x) luma[x] = luma_of(bgr.first[x], bgr.second[x], bgr.third[x]);
}

void plain_to_grey(PlanarRow bgr, int n, uint8_t* grey) {
  for (int x = 0; x < n; ++x) grey[x] = grey_of(bgr.first[x], bgr.second[x], bgr.third[x]);
}

uint64_t plain_sum(const uint8_t* a, int n) { return std::accumulate(a, a + n, uint64_t{0}); }

uint64_t plain_replace(uint8_t* before, const uint8_t* now, int n) {
  const uint64_t difference = plain_absolute_difference(before, now, n);
  std::copy_n(now, n, before);
  return difference;
}

}  // namespace

YuvFactors yuv_factors(const YuvMatrix& matrix) {
  // libswscale's ff_yuv2rgb_c_init_tables: limited range stretches luma by 255/219 from 16, full range
  // shrinks the chroma factors by 224/255; then 13 fractional bits, rounded to 16.
  int64_t y = int64_t{1} << 16;
  int64_t y_offset = 0;
  int64_t factors[4] = {matrix.v_to_r, matrix.u_to_b, -int64_t{matrix.u_to_g}, -int64_t{matrix.v_to_g}};
  if (matrix.full_range) {
    for (int64_t& factor : factors) factor = factor * 224 / 255;
  } else {
    y = y * 255 / 219;
    y_offset = 16 * 8;
  }
  const auto rounded = [](int64_t factor) {
    return static_cast<int16_t>(std::clamp<int64_t>(((factor << 13) + (1 << 15)) >> 16, -0x7FFF, 0x7FFF));
  };
  return {static_cast<int16_t>(y_offset),
          rounded(y),
          rounded(factors[0]),
          rounded(factors[1]),
          rounded(factors[2]),
          rounded(factors[3])};
}

const HsvTables& hsv_tables() {
  static const HsvTables tables = [] {
    HsvTables t{};
    for (int i = 1; i < 256; ++i) {
      t.saturation[i] = static_cast<int32_t>(std::lrint(kSaturationOne / static_cast<double>(i)));
      t.hue[i] = static_cast<int32_t>(std::lrint(kSextant / static_cast<double>(i)));
    }
    return t;
  }();
  return tables;
}

const RowKernels& plain_rows() {
  static constexpr RowKernels kRows = {
      plain_sample_yuv420,  plain_sample_bgr, plain_split,   plain_to_hsv, plain_absolute_difference,
      plain_convert_yuv420, plain_to_luma,    plain_to_grey, plain_sum,    plain_replace};
  return kRows;
}

const RowKernels& rows_for(const ResizePlan* plan) {
  static const RowKernels* const vector_rows = avx512_rows() != nullptr ? avx512_rows() : avx2_rows();
  const bool usable = vector_rows != nullptr && (plan == nullptr || plan->luma.windows > 0);
  return usable ? *vector_rows : plain_rows();
}

}  // namespace kinora::content_score_detail
