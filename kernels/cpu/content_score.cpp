#include "kernels/cpu/content_score.hpp"

#include <cmath>

#include "kernels/cpu/content_score_rows.hpp"

namespace kinora {

namespace {

using content_score_detail::padded_width;
using content_score_detail::PlanarRow;
using content_score_detail::RowKernels;
using content_score_detail::rows_for;

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
                     static_cast<double>(difference.value) / pixels * weights.value +
                     static_cast<double>(difference.edges) / pixels * weights.edges;
  return sum / (std::abs(weights.hue) + std::abs(weights.saturation) + std::abs(weights.value) +
                std::abs(weights.edges));
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

}  // namespace kinora
