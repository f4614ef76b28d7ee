#include "kernels/cpu/edge_map.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace kinora {
namespace {

constexpr int kShift = 15;
constexpr int kTangent = 13573;  // tan(22.5 degrees) with kShift fractional bits, rounded

// Sobel derivatives with the border repeated, and their magnitudes with a border of zeros.
struct Gradient {
  Gradient(const uint8_t* value, FrameSize size)
      : stride(size.width + 2), dx(area(size)), dy(area(size)), magnitude(area(size)) {
    for (int y = 0; y < size.height; ++y) {
      const uint8_t* const rows[3] = {value + ptrdiff_t{size.width} * std::max(y - 1, 0),
                                      value + ptrdiff_t{size.width} * y,
                                      value + ptrdiff_t{size.width} * std::min(y + 1, size.height - 1)};
      for (int x = 0; x < size.width; ++x) {
        const int left = std::max(x - 1, 0), right = std::min(x + 1, size.width - 1);
        const int gx = rows[0][right] - rows[0][left] + 2 * (rows[1][right] - rows[1][left]) +
                       rows[2][right] - rows[2][left];
        const int gy =
            rows[2][left] - rows[0][left] + 2 * (rows[2][x] - rows[0][x]) + rows[2][right] - rows[0][right];
        const size_t at = index(x, y);
        dx[at] = gx, dy[at] = gy, magnitude[at] = std::abs(gx) + std::abs(gy);
      }
    }
  }
  static size_t area(FrameSize size) {
    return (static_cast<size_t>(size.width) + 2) * (static_cast<size_t>(size.height) + 2);
  }
  size_t index(int x, int y) const {
    return static_cast<size_t>(y + 1) * static_cast<size_t>(stride) + static_cast<size_t>(x) + 1;
  }

  // Largest across the edge, along the nearest of four directions.
  bool ridge(size_t at) const {
    const int m = magnitude[at];
    const auto step = static_cast<size_t>(stride);
    const int64_t x = std::abs(dx[at]), y = int64_t{std::abs(dy[at])} << kShift;
    const int64_t flat = x * kTangent, steep = flat + (x << (kShift + 1));
    if (y < flat) return m > magnitude[at - 1] && m >= magnitude[at + 1];
    if (y > steep) return m > magnitude[at - step] && m >= magnitude[at + step];
    const bool falling = (dx[at] ^ dy[at]) < 0;
    return falling ? m > magnitude[at - step + 1] && m > magnitude[at + step - 1]
                   : m > magnitude[at - step - 1] && m > magnitude[at + step + 1];
  }

  int stride;
  std::vector<int> dx, dy, magnitude;
};

// Along one line of `n` samples `stride` apart: 255 within `reach` of a 255.
void widen_line(const uint8_t* in, uint8_t* out, int n, ptrdiff_t stride, int reach) {
  int last = -reach - 1;
  for (int i = 0; i < std::min(reach, n); ++i)
    if (in[i * stride] != 0) last = i;
  for (int i = 0; i < n; ++i) {
    const int ahead = i + reach;
    if (ahead < n && in[ahead * stride] != 0) last = ahead;
    out[i * stride] = last >= i - reach ? 255 : 0;
  }
}

}  // namespace

int edge_kernel_size(FrameSize size) {
  const int kernel =
      4 + static_cast<int>(std::lrint(std::sqrt(static_cast<double>(size.width) * size.height) / 192));
  return kernel % 2 == 0 ? kernel + 1 : kernel;
}

EdgeThresholds edge_thresholds(const uint8_t* value, size_t n) {
  std::array<size_t, 256> counts{};
  for (size_t i = 0; i < n; ++i) ++counts[value[i]];
  const auto at_rank = [&](size_t rank) {
    int level = 0;
    for (size_t seen = counts[0]; seen <= rank; seen += counts[static_cast<size_t>(level)]) ++level;
    return level;
  };
  if (n == 0) return {};
  const double median = (at_rank((n - 1) / 2) + at_rank(n / 2)) / 2.0;
  constexpr double kSigma = 1.0 / 3.0;
  return {static_cast<int>((1.0 - kSigma) * median),
          static_cast<int>(std::min(255.0, (1.0 + kSigma) * median))};
}

std::vector<uint8_t> canny(const uint8_t* value, FrameSize size, const EdgeThresholds& thresholds) {
  const Gradient gradient(value, size);
  std::vector<uint8_t> map(Gradient::area(size));  // 1: an edge if it touches one, 2: an edge
  std::vector<size_t> strong;
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      const size_t at = gradient.index(x, y);
      if (gradient.magnitude[at] <= thresholds.low || !gradient.ridge(at)) continue;
      const bool sure = gradient.magnitude[at] > thresholds.high;
      map[at] = sure ? 2 : 1;
      if (sure) strong.push_back(at);
    }
  }
  const auto stride = static_cast<size_t>(gradient.stride);
  while (!strong.empty()) {
    const size_t at = strong.back();
    strong.pop_back();
    for (const size_t row : {at - stride, at, at + stride})
      for (const size_t near : {row - 1, row, row + 1})
        if (map[near] == 1) map[near] = 2, strong.push_back(near);
  }
  std::vector<uint8_t> out;
  for (int y = 0; y < size.height; ++y)
    for (int x = 0; x < size.width; ++x) out.push_back(map[gradient.index(x, y)] == 2 ? 255 : 0);
  return out;
}

std::vector<uint8_t> widen_edges(const std::vector<uint8_t>& edges, FrameSize size, int kernel) {
  std::vector<uint8_t> across(edges.size()), out(edges.size());
  for (int y = 0; y < size.height; ++y)
    widen_line(edges.data() + ptrdiff_t{size.width} * y, across.data() + ptrdiff_t{size.width} * y,
               size.width, 1, kernel / 2);
  for (int x = 0; x < size.width; ++x)
    widen_line(across.data() + x, out.data() + x, size.height, size.width, kernel / 2);
  return out;
}

}  // namespace kinora
