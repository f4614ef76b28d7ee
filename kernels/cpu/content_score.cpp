#include "kernels/cpu/content_score.hpp"

#include <cmath>
#include <cstring>

#include "kernels/cpu/content_score_rows.hpp"

namespace kinora {

namespace {

using content_score_detail::padded_width;
using content_score_detail::PlanarRow;
using content_score_detail::RowKernels;
using content_score_detail::rows_for;
using content_score_detail::yuv_factors;
using content_score_detail::YuvFactors;

PlanarRow planar_row(std::vector<uint8_t>& storage, size_t first_row, size_t row_bytes) {
  uint8_t* base = storage.data() + first_row * row_bytes;
  return {base, base + row_bytes, base + 2 * row_bytes};
}

}  // namespace

double content_score(const HsvDifference& difference, const ContentWeights& weights) {
  if (difference.pixels == 0) return 0.0;
  const double pixels = static_cast<double>(difference.pixels);
  const double sum = static_cast<double>(difference.hue) / pixels * weights.hue +
                     static_cast<double>(difference.saturation) / pixels * weights.saturation +
                     static_cast<double>(difference.value) / pixels * weights.value;
  return sum / (std::abs(weights.hue) + std::abs(weights.saturation) + std::abs(weights.value));
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
