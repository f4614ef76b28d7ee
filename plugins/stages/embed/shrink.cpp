#include "shrink.hpp"

#include <algorithm>

namespace kinora::embed {
namespace {

// Interval of one axis that a cell of the reduced frame covers.
struct Span {
  int64_t first = 0;
  std::vector<double> weights;  // of the pixels from `first` on; they sum to 1
};

std::vector<Span> spans(int64_t size, int64_t side) {
  std::vector<Span> out(static_cast<size_t>(side));
  for (int64_t i = 0; i < side; ++i) {
    const double scale = static_cast<double>(size) / static_cast<double>(side),
                 begin = static_cast<double>(i) * scale, end = static_cast<double>(i + 1) * scale;
    Span& span = out[static_cast<size_t>(i)];
    span.first = static_cast<int64_t>(begin);
    for (int64_t p = span.first; p < size && static_cast<double>(p) < end; ++p)
      span.weights.push_back(
          (std::min(end, static_cast<double>(p + 1)) - std::max(begin, static_cast<double>(p))) / scale);
  }
  return out;
}

}  // namespace

std::vector<double> shrink(const uint8_t* rgb, int64_t height, int64_t width, int64_t side) {
  const auto rows = spans(height, side), columns = spans(width, side);
  const auto cells = static_cast<size_t>(side);
  std::vector<double> out(cells * cells * 3), line(static_cast<size_t>(width) * 3);
  for (size_t y = 0; y < cells; ++y) {
    std::fill(line.begin(), line.end(), 0.0);
    for (size_t r = 0; r < rows[y].weights.size(); ++r) {
      const uint8_t* from = rgb + (rows[y].first + static_cast<int64_t>(r)) * width * 3;
      for (size_t i = 0; i < line.size(); ++i) line[i] += rows[y].weights[r] * from[i];
    }
    for (size_t x = 0; x < cells; ++x)
      for (size_t p = 0; p < columns[x].weights.size(); ++p)
        for (size_t c = 0; c < 3; ++c)
          out[(y * cells + x) * 3 + c] +=
              columns[x].weights[p] * line[(static_cast<size_t>(columns[x].first) + p) * 3 + c];
  }
  return out;
}

std::vector<double> brightness(const std::vector<double>& rgb) {
  std::vector<double> out(rgb.size() / 3);
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = 0.299 * rgb[3 * i] + 0.587 * rgb[3 * i + 1] + 0.114 * rgb[3 * i + 2];
  return out;
}

}  // namespace kinora::embed
