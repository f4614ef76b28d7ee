// The plain form of the content score: whole frames, one pixel at a time, in the order of the
// definition.
#include <array>
#include <cstdlib>
#include <vector>

#include "kernels/cpu/content_score.hpp"
#include "kernels/cpu/content_score_rows.hpp"

namespace kinora::reference {

namespace detail = content_score_detail;

void yuv420_to_bgr(const Yuv420View& frame, FrameSize size, const YuvMatrix& matrix, uint8_t* bgr,
                   std::ptrdiff_t bgr_stride) {
  const detail::YuvFactors factors = detail::yuv_factors(matrix);
  for (int y = 0; y < size.height; ++y) {
    const uint8_t* luma = frame.y + y * frame.y_stride;
    const uint8_t* u = frame.u + y / 2 * frame.u_stride;
    const uint8_t* v = frame.v + y / 2 * frame.v_stride;
    uint8_t* out = bgr + y * bgr_stride;
    for (int x = 0; x < size.width; ++x) {
      const std::array<uint8_t, 3> pixel = detail::yuv_to_bgr(factors, luma[x], u[x / 2], v[x / 2]);
      for (int c = 0; c < 3; ++c) out[3 * x + c] = pixel[c];
    }
  }
}

void resize_linear_bgr(BgrView source, FrameSize source_size, uint8_t* bgr, std::ptrdiff_t bgr_stride,
                       FrameSize size) {
  const ResizePlan plan(source_size, size);
  for (int y = 0; y < size.height; ++y) {
    const LinearTap& row = plan.rows[y];
    const uint8_t* top = source.data + row.first * source.stride;
    const uint8_t* bottom = source.data + row.second * source.stride;
    for (int x = 0; x < size.width; ++x) {
      const LinearTap& column = plan.columns[x];
      for (int c = 0; c < 3; ++c) {
        const int first = 3 * column.first + c;
        const int second = 3 * column.second + c;
        bgr[y * bgr_stride + 3 * x + c] =
            detail::vertical(row, detail::horizontal(column, top[first], top[second]),
                             detail::horizontal(column, bottom[first], bottom[second]));
      }
    }
  }
}

void bgr_to_hsv(BgrView bgr, FrameSize size, uint8_t* hue, uint8_t* saturation, uint8_t* value) {
  const detail::HsvTables& tables = detail::hsv_tables();
  for (int y = 0; y < size.height; ++y) {
    const uint8_t* row = bgr.data + y * bgr.stride;
    for (int x = 0; x < size.width; ++x) {
      const std::array<uint8_t, 3> pixel =
          detail::bgr_to_hsv_pixel(tables, row[3 * x], row[3 * x + 1], row[3 * x + 2]);
      *hue++ = pixel[0];
      *saturation++ = pixel[1];
      *value++ = pixel[2];
    }
  }
}

HsvDifference content_difference(BgrView previous, BgrView current, FrameSize size) {
  const size_t pixels = static_cast<size_t>(size.width) * size.height;
  std::array<std::vector<uint8_t>, 3> before;
  std::array<std::vector<uint8_t>, 3> after;
  for (auto* planes : {&before, &after}) {
    for (auto& plane : *planes) plane.resize(pixels);
  }
  reference::bgr_to_hsv(previous, size, before[0].data(), before[1].data(), before[2].data());
  reference::bgr_to_hsv(current, size, after[0].data(), after[1].data(), after[2].data());
  std::array<uint64_t, 3> sums{};
  for (size_t plane = 0; plane < 3; ++plane) {
    for (size_t i = 0; i < pixels; ++i) sums[plane] += std::abs(after[plane][i] - before[plane][i]);
  }
  return {sums[0], sums[1], sums[2], static_cast<int64_t>(pixels)};
}

}  // namespace kinora::reference
