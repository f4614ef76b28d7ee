#include "bars.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace kinora::filters {
namespace {

constexpr int kBlack = 24;    // ffmpeg cropdetect's limit
constexpr int kClearly = 40;  // in full range, as kBlack
constexpr double kClearShare = 0.3;
constexpr int kEdge = 3;  // lines that a scaled and coded edge may cover
constexpr double kMixed = 0.75;

// Measures of each line along one axis, over all frames.
struct Lines {
  std::vector<double> lit, clear, mean;  // largest share above kBlack, above kClearly; largest mean luma
  explicit Lines(int n = 0) : lit(static_cast<size_t>(n)), clear(lit), mean(lit) {}

  void add(const cv::Mat& above_black, const cv::Mat& above_clear, const cv::Mat& luma, int across) {
    const auto most = [&](std::vector<double>& to, const cv::Mat& of, double scale) {
      cv::Mat line;
      cv::reduce(of, line, across, cv::REDUCE_AVG, CV_64F);
      for (size_t i = 0; i < to.size(); ++i)
        to[i] = std::max(to[i], line.at<double>(static_cast<int>(i)) / scale);
    };
    most(lit, above_black, 255);
    most(clear, above_clear, 255);
    most(mean, luma, 1);
  }
};

struct Side {
  int bar = 0;
  bool mixed = false;
};

// Finds the bar from line `first` in steps of `step`; none if no line is lit or the bar has no straight edge.
Side side_of(const Lines& lines, int first, int step) {
  const int n = static_cast<int>(lines.lit.size());
  const auto at = [&](const std::vector<double>& v, int i) {
    return v[static_cast<size_t>(first + step * i)];
  };
  int bar = 0;
  while (bar < n && at(lines.lit, bar) < 0.5) ++bar;
  if (bar == 0 || bar == n) return {};
  bool edge = false;
  for (int i = bar; i < std::min(n, bar + kEdge); ++i) edge |= at(lines.clear, i) >= kClearShare;
  if (!edge) return {};
  return {bar, bar + 1 < n && at(lines.mean, bar) < kMixed * at(lines.mean, bar + 1)};
}

// Finds the bars of the part `inside` of the frames.
Bars look(int64_t frames, const std::function<cv::Mat(int64_t)>& luma, const cv::Rect& inside) {
  Lines rows(inside.height), columns(inside.width);
  for (int64_t i = 0; i < frames; ++i) {
    const cv::Mat picture = luma(i)(inside);
    const cv::Mat lit = picture > kBlack, clear = picture > kClearly;
    rows.add(lit, clear, picture, 1);
    columns.add(lit, clear, picture, 0);
  }
  const Side top = side_of(rows, 0, 1), bottom = side_of(rows, inside.height - 1, -1);
  const Side left = side_of(columns, 0, 1), right = side_of(columns, inside.width - 1, -1);
  return {top.bar, bottom.bar, left.bar, right.bar, top.mixed, bottom.mixed, left.mixed, right.mixed};
}

// First even pixel and one past the last, along a side of `video` pixels that was examined at `frame` pixels.
std::pair<int, int> extent(int before, bool before_mixed, int after, bool after_mixed, int frame, int video) {
  const double scale = static_cast<double>(video) / frame;
  const auto pixels = [&](int bar, bool mixed) {
    const double exact = (bar + (mixed && scale > 1 ? 1 : 0)) * scale;
    return bar == 0 ? 0 : static_cast<int>(std::ceil(exact - 1e-9));
  };
  const int first = (pixels(before, before_mixed) + 1) / 2 * 2;
  const int end = first + (video - pixels(after, after_mixed) - first) / 2 * 2;
  return end > first ? std::pair{first, end} : std::pair{0, video};
}

}  // namespace

Bars find_bars(int64_t frames, const std::function<cv::Mat(int64_t)>& luma) {
  const cv::Size size = luma(0).size();
  Bars all;
  // A narrow picture does not light half a row until its side bars are removed, and vice versa.
  for (int round = 0; round < 3; ++round) {
    const cv::Rect inside(all.left, all.top, size.width - all.left - all.right,
                          size.height - all.top - all.bottom);
    const Bars more = look(frames, luma, inside);
    const auto take = [](int& bar, bool& mixed, int found, bool found_mixed) {
      if (found == 0) return;
      bar += found;
      mixed = found_mixed;
    };
    take(all.top, all.top_mixed, more.top, more.top_mixed);
    take(all.bottom, all.bottom_mixed, more.bottom, more.bottom_mixed);
    take(all.left, all.left_mixed, more.left, more.left_mixed);
    take(all.right, all.right_mixed, more.right, more.right_mixed);
    if (more.top + more.bottom + more.left + more.right == 0) break;
  }
  return all;
}

cv::Rect picture_inside(const Bars& b, cv::Size frame, cv::Size video) {
  const auto [x, x_end] = extent(b.left, b.left_mixed, b.right, b.right_mixed, frame.width, video.width);
  const auto [y, y_end] = extent(b.top, b.top_mixed, b.bottom, b.bottom_mixed, frame.height, video.height);
  return {x, y, x_end - x, y_end - y};
}

}  // namespace kinora::filters
