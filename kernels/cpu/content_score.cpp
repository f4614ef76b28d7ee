#include "kernels/cpu/content_score.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "kernels/cpu/content_score_rows.hpp"

namespace kinora {

namespace {

using content_score_detail::avx2_rows;
using content_score_detail::hsv_tables;
using content_score_detail::HsvTables;
using content_score_detail::padded_width;
using content_score_detail::PlanarRow;
using content_score_detail::RowKernels;
using content_score_detail::rows_for;
using content_score_detail::yuv_factors;
using content_score_detail::YuvFactors;

constexpr int kLongSide = 256;
constexpr int kLane = 8;     // columns of a lane: eight pairs fill sixteen bytes
constexpr int kWindow = 16;  // bytes of one load

// The half-pixel-centre map of OpenCV's resize, in its float arithmetic. Columns drop the fraction at the
// borders; rows keep it and repeat the border row. The two round differently.
std::vector<LinearTap> linear_taps(int source, int scaled, bool keep_fraction_at_border) {
  const double scale = 1.0 / (static_cast<double>(scaled) / source);
  std::vector<LinearTap> taps(scaled);
  for (int i = 0; i < scaled; ++i) {
    float fraction = static_cast<float>((i + 0.5) * scale - 0.5);
    int first = static_cast<int>(std::floor(fraction));
    fraction -= static_cast<float>(first);
    if (!keep_fraction_at_border && (first < 0 || first >= source - 1)) fraction = 0.0F;
    taps[i] = {std::clamp(first, 0, source - 1), std::clamp(first + 1, 0, source - 1),
               static_cast<int16_t>(std::lrint((1.0F - fraction) * 2048.0F)),
               static_cast<int16_t>(std::lrint(fraction * 2048.0F))};
  }
  return taps;
}

struct LaneWindow {
  int32_t offset;
  std::array<uint8_t, kWindow> shuffle;
};

// Covers a lane's byte positions from the left with sixteen-byte loads that stay inside the row.
std::vector<LaneWindow> cover(const std::array<int32_t, kWindow>& positions, int row_bytes) {
  std::array<bool, kWindow> done{};
  for (int i = 0; i < kWindow; ++i) done[i] = positions[i] < 0;
  std::vector<LaneWindow> windows;
  for (;;) {
    int32_t left = std::numeric_limits<int32_t>::max();
    for (int i = 0; i < kWindow; ++i) {
      if (!done[i]) left = std::min(left, positions[i]);
    }
    if (left == std::numeric_limits<int32_t>::max()) return windows;
    LaneWindow window;
    window.offset = std::min(left, row_bytes - kWindow);
    window.shuffle.fill(0x80);
    for (int i = 0; i < kWindow; ++i) {
      if (done[i] || positions[i] >= window.offset + kWindow) continue;
      window.shuffle[i] = static_cast<uint8_t>(positions[i] - window.offset);
      done[i] = true;
    }
    windows.push_back(window);
  }
}

// `position(source column)` is the byte of a row that holds the sample.
template <typename Position>
GatherPlan gather_plan(const std::vector<LinearTap>& columns, int row_bytes, const Position& position) {
  const int width = static_cast<int>(columns.size());
  std::vector<std::vector<LaneWindow>> lanes(padded_width(width) / kLane);
  GatherPlan plan;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    std::array<int32_t, kWindow> positions;
    positions.fill(-1);
    const int first_column = static_cast<int>(lane) * kLane;
    for (int i = 0; i < std::min(kLane, width - first_column); ++i) {
      positions[2 * i] = position(columns[first_column + i].first);
      positions[2 * i + 1] = position(columns[first_column + i].second);
    }
    lanes[lane] = cover(positions, row_bytes);
    plan.windows = std::max(plan.windows, static_cast<int>(lanes[lane].size()));
  }
  LaneWindow nothing{0, {}};
  nothing.shuffle.fill(0x80);
  for (auto& windows : lanes) windows.resize(plan.windows, nothing);
  for (size_t block = 0; block < lanes.size(); block += 2) {
    for (int w = 0; w < plan.windows; ++w) {
      const LaneWindow& low = lanes[block][w];
      const LaneWindow& high = lanes[block + 1][w];
      plan.offset.push_back({low.offset, high.offset});
      std::array<uint8_t, 2 * kWindow>& shuffle = plan.shuffle.emplace_back();
      std::copy(low.shuffle.begin(), low.shuffle.end(), shuffle.begin());
      std::copy(high.shuffle.begin(), high.shuffle.end(), shuffle.begin() + kWindow);
    }
  }
  return plan;
}

void plain_sample_yuv420(const ResizePlan& plan, const Yuv420View& frame, const YuvFactors& factors, int y,
                         PlanarRow out) {
  const LinearTap& row = plan.rows[y];
  const auto pixel = [&](int source_y, int x) {
    const std::ptrdiff_t chroma_y = source_y / 2;
    return content_score_detail::yuv_to_bgr(factors, frame.y[source_y * frame.y_stride + x],
                                            frame.u[chroma_y * frame.u_stride + x / 2],
                                            frame.v[chroma_y * frame.v_stride + x / 2]);
  };
  uint8_t* const planes[3] = {out.first, out.second, out.third};
  for (int x = 0; x < plan.scaled.width; ++x) {
    const LinearTap& column = plan.columns[x];
    const auto top_first = pixel(row.first, column.first);
    const auto top_second = pixel(row.first, column.second);
    const auto bottom_first = pixel(row.second, column.first);
    const auto bottom_second = pixel(row.second, column.second);
    for (int c = 0; c < 3; ++c) {
      planes[c][x] = content_score_detail::vertical(
          row, content_score_detail::horizontal(column, top_first[c], top_second[c]),
          content_score_detail::horizontal(column, bottom_first[c], bottom_second[c]));
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
      planes[c][x] = content_score_detail::vertical(
          row, content_score_detail::horizontal(column, top[first], top[second]),
          content_score_detail::horizontal(column, bottom[first], bottom[second]));
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

void plain_join(PlanarRow bgr, int n, uint8_t* interleaved) {
  for (int x = 0; x < n; ++x) {
    interleaved[3 * x] = bgr.first[x];
    interleaved[3 * x + 1] = bgr.second[x];
    interleaved[3 * x + 2] = bgr.third[x];
  }
}

void plain_to_hsv(PlanarRow bgr, int n, PlanarRow hsv) {
  const HsvTables& tables = hsv_tables();
  for (int x = 0; x < n; ++x) {
    const auto pixel =
        content_score_detail::bgr_to_hsv_pixel(tables, bgr.first[x], bgr.second[x], bgr.third[x]);
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

PlanarRow planar_row(std::vector<uint8_t>& storage, size_t first_row, size_t row_bytes) {
  uint8_t* base = storage.data() + first_row * row_bytes;
  return {base, base + row_bytes, base + 2 * row_bytes};
}

}  // namespace

namespace content_score_detail {

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
  static constexpr RowKernels kRows = {plain_sample_yuv420, plain_sample_bgr, plain_split,
                                       plain_join,          plain_to_hsv,     plain_absolute_difference};
  return kRows;
}

const RowKernels& rows_for(const ResizePlan* plan) {
  static const RowKernels* const vector_rows = avx2_rows();
  const bool usable = vector_rows != nullptr && (plan == nullptr || plan->luma.windows > 0);
  return usable ? *vector_rows : plain_rows();
}

}  // namespace content_score_detail

ResizePlan::ResizePlan(FrameSize source_size, FrameSize scaled_size)
    : source(source_size),
      scaled(scaled_size),
      columns(linear_taps(source.width, scaled.width, false)),
      rows(linear_taps(source.height, scaled.height, true)) {
  const int chroma_width = (source.width + 1) / 2;
  if (chroma_width < kWindow) return;
  coarse_weights.resize(2 * static_cast<size_t>(padded_width(scaled.width)));
  fine_weights.resize(coarse_weights.size());
  for (size_t x = 0; x < columns.size(); ++x) {
    const int16_t weights[2] = {columns[x].first_weight, columns[x].second_weight};
    for (size_t i = 0; i < 2; ++i) {
      coarse_weights[2 * x + i] = static_cast<uint8_t>(weights[i] / 16);
      fine_weights[2 * x + i] = static_cast<uint8_t>(weights[i] % 16);
      any_fine_weight = any_fine_weight || weights[i] % 16 != 0;
    }
  }
  luma = gather_plan(columns, source.width, [](int x) { return x; });
  chroma = gather_plan(columns, chroma_width, [](int x) { return x / 2; });
  for (int c = 0; c < 3; ++c)
    bgr[c] = gather_plan(columns, 3 * source.width, [c](int x) { return 3 * x + c; });
}

FrameSize content_score_size(FrameSize frame) {
  const int longer = std::max(frame.width, frame.height);
  if (longer <= kLongSide) return frame;
  const double factor = longer / static_cast<double>(kLongSide);
  const auto scaled = [factor](int side) { return std::max(1, static_cast<int>(std::lrint(side / factor))); };
  return {scaled(frame.width), scaled(frame.height)};
}

double content_score(const HsvDifference& difference, const ContentWeights& weights) {
  if (difference.pixels == 0) return 0.0;
  const double pixels = static_cast<double>(difference.pixels);
  const double sum = static_cast<double>(difference.hue) / pixels * weights.hue +
                     static_cast<double>(difference.saturation) / pixels * weights.saturation +
                     static_cast<double>(difference.value) / pixels * weights.value;
  return sum / (std::abs(weights.hue) + std::abs(weights.saturation) + std::abs(weights.value));
}

void yuv420_to_bgr_sampled(const ResizePlan& plan, const Yuv420View& frame, const YuvMatrix& matrix,
                           uint8_t* bgr, std::ptrdiff_t bgr_stride) {
  const RowKernels& kernels = rows_for(&plan);
  const YuvFactors factors = yuv_factors(matrix);
  const size_t row_bytes = padded_width(plan.scaled.width);
  std::vector<uint8_t> scratch(3 * row_bytes);
  const PlanarRow row = planar_row(scratch, 0, row_bytes);
  for (int y = 0; y < plan.scaled.height; ++y) {
    kernels.sample_yuv420(plan, frame, factors, y, row);
    kernels.join(row, plan.scaled.width, bgr + y * bgr_stride);
  }
}

void resize_linear_bgr(const ResizePlan& plan, BgrView source, uint8_t* bgr, std::ptrdiff_t bgr_stride) {
  const RowKernels& kernels = rows_for(&plan);
  const size_t row_bytes = padded_width(plan.scaled.width);
  std::vector<uint8_t> scratch(3 * row_bytes);
  const PlanarRow row = planar_row(scratch, 0, row_bytes);
  for (int y = 0; y < plan.scaled.height; ++y) {
    kernels.sample_bgr(plan, source, y, row);
    kernels.join(row, plan.scaled.width, bgr + y * bgr_stride);
  }
}

void bgr_to_hsv(BgrView bgr, FrameSize size, uint8_t* hue, uint8_t* saturation, uint8_t* value) {
  const RowKernels& kernels = rows_for(nullptr);
  std::vector<uint8_t> scratch(3 * static_cast<size_t>(size.width));
  const PlanarRow row = planar_row(scratch, 0, size.width);
  for (int y = 0; y < size.height; ++y) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(y) * size.width;
    kernels.split(bgr.data + y * bgr.stride, size.width, row);
    kernels.to_hsv(row, size.width, {hue + at, saturation + at, value + at});
  }
}

HsvDifference content_difference(BgrView previous, BgrView current, FrameSize size) {
  const RowKernels& kernels = rows_for(nullptr);
  std::vector<uint8_t> scratch(9 * static_cast<size_t>(size.width));
  const PlanarRow bgr = planar_row(scratch, 0, size.width);
  const PlanarRow before = planar_row(scratch, 3, size.width);
  const PlanarRow after = planar_row(scratch, 6, size.width);
  HsvDifference sum;
  sum.pixels = static_cast<int64_t>(size.width) * size.height;
  for (int y = 0; y < size.height; ++y) {
    kernels.split(previous.data + y * previous.stride, size.width, bgr);
    kernels.to_hsv(bgr, size.width, before);
    kernels.split(current.data + y * current.stride, size.width, bgr);
    kernels.to_hsv(bgr, size.width, after);
    sum.hue += kernels.absolute_difference(before.first, after.first, size.width);
    sum.saturation += kernels.absolute_difference(before.second, after.second, size.width);
    sum.value += kernels.absolute_difference(before.third, after.third, size.width);
  }
  return sum;
}

ContentScorer::ContentScorer(FrameSize source, FrameSize scaled)
    : plan_(source, scaled),
      scratch_(6 * static_cast<size_t>(padded_width(scaled.width))),
      previous_(3 * static_cast<size_t>(scaled.width) * scaled.height) {}

template <typename SampleRow>
HsvDifference ContentScorer::push_rows(const SampleRow& sample_row) {
  const RowKernels& kernels = rows_for(&plan_);
  const int width = plan_.scaled.width;
  const size_t row_bytes = padded_width(width);
  const PlanarRow bgr = planar_row(scratch_, 0, row_bytes);
  const PlanarRow hsv = planar_row(scratch_, 3, row_bytes);
  const size_t plane = static_cast<size_t>(width) * plan_.scaled.height;
  HsvDifference sum;
  sum.pixels = static_cast<int64_t>(plane);
  for (int y = 0; y < plan_.scaled.height; ++y) {
    sample_row(kernels, y, bgr);
    kernels.to_hsv(bgr, width, hsv);
    uint8_t* before = previous_.data() + static_cast<size_t>(y) * width;
    if (started_) {
      sum.hue += kernels.absolute_difference(before, hsv.first, width);
      sum.saturation += kernels.absolute_difference(before + plane, hsv.second, width);
      sum.value += kernels.absolute_difference(before + 2 * plane, hsv.third, width);
    }
    std::memcpy(before, hsv.first, width);
    std::memcpy(before + plane, hsv.second, width);
    std::memcpy(before + 2 * plane, hsv.third, width);
  }
  started_ = true;
  return sum;
}

HsvDifference ContentScorer::push(const Yuv420View& frame, const YuvMatrix& matrix) {
  const YuvFactors factors = yuv_factors(matrix);
  return push_rows([&](const RowKernels& kernels, int y, PlanarRow row) {
    kernels.sample_yuv420(plan_, frame, factors, y, row);
  });
}

HsvDifference ContentScorer::push(BgrView frame) {
  return push_rows(
      [&](const RowKernels& kernels, int y, PlanarRow row) { kernels.sample_bgr(plan_, frame, y, row); });
}

}  // namespace kinora
