// The source samples that a scaled frame reads, their weights, and how vector code gathers them.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/content_score.hpp"
#include "kernels/cpu/content_score_rows.hpp"

namespace kinora {

namespace {

using content_score_detail::padded_width;

constexpr int kLongSide = 256;
constexpr int kLane = 8;     // columns of a lane: eight pairs fill sixteen bytes
constexpr int kWindow = 16;  // bytes of one load

// The half-pixel-centre map of OpenCV's resize, in its float arithmetic. Shrinking never reads outside the
// source, so its border rules do not matter.
std::vector<LinearTap> linear_taps(int source, int scaled) {
  const double scale = 1.0 / (static_cast<double>(scaled) / source);
  std::vector<LinearTap> taps(scaled);
  for (int i = 0; i < scaled; ++i) {
    float fraction = static_cast<float>((i + 0.5) * scale - 0.5);
    const int first = static_cast<int>(std::floor(fraction));
    fraction -= static_cast<float>(first);
    taps[i] = {first, std::min(first + 1, source - 1),
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

// `position(source column)` is the index of the row's byte that contains the sample.
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

}  // namespace

ResizePlan::ResizePlan(FrameSize source_size, FrameSize scaled_size)
    : source(source_size),
      scaled(scaled_size),
      columns(linear_taps(source.width, scaled.width)),
      rows(linear_taps(source.height, scaled.height)) {
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
  return downscaled_size(frame, longer / static_cast<double>(kLongSide));
}

FrameSize downscaled_size(FrameSize frame, double factor) {
  const auto scaled = [factor](int side) { return std::max(1, static_cast<int>(std::lrint(side / factor))); };
  return {scaled(frame.width), scaled(frame.height)};
}

}  // namespace kinora
