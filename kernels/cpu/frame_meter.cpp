#include "kernels/cpu/frame_meter.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/content_score_rows.hpp"
#include "kernels/cpu/edge_map.hpp"

namespace kinora {
namespace {

using content_score_detail::padded_width;
using content_score_detail::PlanarRow;
using content_score_detail::RowKernels;
using content_score_detail::rows_for;
using content_score_detail::yuv_factors;
using content_score_detail::YuvFactors;

constexpr int kSpan = 64;  // columns that are compared, and skipped, together
constexpr size_t kRows = 7;

struct Rows {
  const uint8_t *y, *u, *v;
  Rows(const Yuv420View& frame, int row)
      : y(frame.y + row * frame.y_stride),
        u(frame.u + row / 2 * frame.u_stride),
        v(frame.v + row / 2 * frame.v_stride) {}
  // `n` columns starting at an even x. The usual width is a constant, so that the compiler makes no calls.
  bool same(const Rows& o, int x, int n) const {
    if (n == kSpan)
      return std::memcmp(y + x, o.y + x, kSpan) == 0 && std::memcmp(u + x / 2, o.u + x / 2, kSpan / 2) == 0 &&
             std::memcmp(v + x / 2, o.v + x / 2, kSpan / 2) == 0;
    const auto half = static_cast<size_t>((n + 1) / 2);
    return std::memcmp(y + x, o.y + x, static_cast<size_t>(n)) == 0 &&
           std::memcmp(u + x / 2, o.u + x / 2, half) == 0 && std::memcmp(v + x / 2, o.v + x / 2, half) == 0;
  }
};

}  // namespace

FrameMeter::FrameMeter(FrameSize source, FrameSize scaled, const MeterOptions& options)
    : plan_(source, scaled),
      options_(options),
      unscaled_(source == scaled),
      scratch_(kRows * static_cast<size_t>(padded_width(scaled.width))),
      previous_(options.hsv ? 3 * static_cast<size_t>(scaled.width) * static_cast<size_t>(scaled.height)
                            : 0) {
  if (options_.edge_kernel == 0) options_.edge_kernel = edge_kernel_size(scaled);
  if (options_.bins > 0) histogram_.emplace(options_.bins);
  if (options_.hash_size > 0) hash_.emplace(scaled, options_.hash_size, options_.hash_lowpass);
}

void FrameMeter::measure(int y, uint8_t* const bgr[3], FrameMeasures& out) {
  const RowKernels& kernels = rows_for(nullptr);
  const int width = plan_.scaled.width;
  const PlanarRow row{bgr[0], bgr[1], bgr[2]};
  const auto row_bytes = static_cast<size_t>(padded_width(width));
  uint8_t* const hsv[3] = {scratch_.data() + 3 * row_bytes, scratch_.data() + 4 * row_bytes,
                           scratch_.data() + 5 * row_bytes};
  uint8_t* const grey = scratch_.data() + 6 * row_bytes;
  if (options_.hsv) {
    kernels.to_hsv(row, width, {hsv[0], hsv[1], hsv[2]});
    const size_t plane = static_cast<size_t>(width) * static_cast<size_t>(plan_.scaled.height);
    uint8_t* const before = previous_.data() + static_cast<size_t>(y) * static_cast<size_t>(width);
    out.hsv.hue += kernels.replace(before, hsv[0], width);
    out.hsv.saturation += kernels.replace(before + plane, hsv[1], width);
    out.hsv.value += kernels.replace(before + 2 * plane, hsv[2], width);
  }
  if (histogram_) {
    kernels.to_luma(row, width, grey);
    histogram_->add(grey, width);
  }
  if (hash_) {
    kernels.to_grey(row, width, grey);
    hash_->add(y, grey);
  }
  if (options_.mean)
    for (int c = 0; c < 3; ++c) channel_sum_ += kernels.sum(bgr[c], width);
}

void FrameMeter::add_edges(HsvDifference& sum) {
  const size_t plane = static_cast<size_t>(plan_.scaled.width) * static_cast<size_t>(plan_.scaled.height);
  const uint8_t* const value = previous_.data() + 2 * plane;
  auto edges = widen_edges(canny(value, plan_.scaled, edge_thresholds(value, plane)), plan_.scaled,
                           options_.edge_kernel);
  edges_.resize(edges.size());
  sum.edges =
      rows_for(nullptr).absolute_difference(edges_.data(), edges.data(), static_cast<int>(edges.size()));
  edges_ = std::move(edges);
}

void FrameMeter::finish(FrameMeasures& out) {
  const int64_t pixels = int64_t{plan_.scaled.width} * plan_.scaled.height;
  if (options_.hsv && options_.edges) add_edges(out.hsv);
  if (histogram_) {
    auto histogram = histogram_->take();
    if (started_) out.correlation = correlation(last_histogram_, histogram);
    last_histogram_ = std::move(histogram);
  }
  if (hash_) {
    auto hash = hash_->take();
    if (started_) out.hash_distance = hash_distance(hash, last_hash_);
    last_hash_ = std::move(hash);
  }
  if (options_.mean) out.mean = static_cast<double>(channel_sum_) / static_cast<double>(3 * pixels);
  channel_sum_ = 0;
  if (!started_) out.hsv = {};
  if (options_.hsv) out.hsv.pixels = pixels;
  started_ = true;
}

template <typename Row>
FrameMeasures FrameMeter::push_rows(const Row& row) {
  const RowKernels& kernels = rows_for(&plan_);
  const auto row_bytes = static_cast<size_t>(padded_width(plan_.scaled.width));
  uint8_t* const bgr[3] = {scratch_.data(), scratch_.data() + row_bytes, scratch_.data() + 2 * row_bytes};
  FrameMeasures out;
  for (int y = 0; y < plan_.scaled.height; ++y) {
    row(kernels, y, PlanarRow{bgr[0], bgr[1], bgr[2]});
    measure(y, bgr, out);
  }
  finish(out);
  return out;
}

// Row by row, converts the spans that differ, compares them with the stored last frame, and stores them.
void FrameMeter::push_changes(const Yuv420View& frame, const YuvMatrix& matrix, const Yuv420View& before,
                              HsvDifference& sum) {
  const RowKernels& kernels = rows_for(nullptr);
  const YuvFactors factors = yuv_factors(matrix);
  const int width = plan_.scaled.width;
  const auto row_bytes = static_cast<size_t>(padded_width(width));
  const size_t plane = static_cast<size_t>(width) * static_cast<size_t>(plan_.scaled.height);
  uint8_t* at[6];
  for (size_t i = 0; i < 6; ++i) at[i] = scratch_.data() + i * row_bytes;
  for (int y = 0; y < plan_.scaled.height; ++y) {
    const Rows now(frame, y), last(before, y);
    uint8_t* const kept = previous_.data() + static_cast<size_t>(y) * static_cast<size_t>(width);
    for (int x = 0; x < width;) {
      int end = x;
      while (end < width && !now.same(last, end, std::min(kSpan, width - end)))
        end += std::min(kSpan, width - end);
      const int n = end - x;
      if (n > 0) {
        kernels.convert_yuv420(now.y + x, now.u + x / 2, now.v + x / 2, factors, n, {at[0], at[1], at[2]});
        kernels.to_hsv({at[0], at[1], at[2]}, n, {at[3], at[4], at[5]});
        sum.hue += kernels.replace(kept + x, at[3], n);
        sum.saturation += kernels.replace(kept + plane + x, at[4], n);
        sum.value += kernels.replace(kept + 2 * plane + x, at[5], n);
      }
      x = end + kSpan;  // the span there is equal, or the row ends
    }
  }
}

FrameMeasures FrameMeter::push(const Yuv420View& frame, const YuvMatrix& matrix, const Yuv420View* before) {
  const bool hsv_alone = options_.hsv && !histogram_ && !hash_ && !options_.mean;
  if (unscaled_ && hsv_alone && started_ && before != nullptr) {
    FrameMeasures out;
    push_changes(frame, matrix, *before, out.hsv);
    finish(out);
    return out;
  }
  const YuvFactors factors = yuv_factors(matrix);
  if (!unscaled_)
    return push_rows([&](const RowKernels& kernels, int y, PlanarRow row) {
      kernels.sample_yuv420(plan_, frame, factors, y, row);
    });
  return push_rows([&](const RowKernels& kernels, int y, PlanarRow row) {
    const Rows rows(frame, y);
    kernels.convert_yuv420(rows.y, rows.u, rows.v, factors, plan_.scaled.width, row);
  });
}

FrameMeasures FrameMeter::push(BgrView frame) {
  return push_rows([&](const RowKernels& kernels, int y, PlanarRow row) {
    if (unscaled_) {
      kernels.split(frame.data + y * frame.stride, plan_.scaled.width, row);
    } else {
      kernels.sample_bgr(plan_, frame, y, row);
    }
  });
}

}  // namespace kinora
