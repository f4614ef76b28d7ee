#include "text_regions.hpp"

#include <opencv2/imgproc.hpp>

namespace kinora::filters {
namespace {

// Height in pixels of a block of letters, at the scale where it is measured.
constexpr int kLowest = 6, kHighest = 24;
constexpr double kLongerThanHigh = 2.5;              // three letters or more
constexpr double kFilled = 0.6;                      // share of its rectangle: a line of text is straight
constexpr double kSparsest = 0.25, kDensest = 0.95;  // share of edges in it: strokes and gaps
constexpr int kSmallestPicture = 90;  // height of the smallest scale: a line of 24 pixels is a quarter of it

bool like_a_line(const cv::Mat& edges, const cv::Rect& box, int area) {
  if (box.height < kLowest || box.height > kHighest || box.width < kLongerThanHigh * box.height) return false;
  if (area < kFilled * box.area()) return false;
  const double density = static_cast<double>(cv::countNonZero(edges(box))) / box.area();
  return density >= kSparsest && density <= kDensest;
}

// Returns the rectangles of lines of text in these edges.
std::vector<cv::Rect> lines_of(const cv::Mat& edges) {
  cv::Mat blocks, labels, stats, centres;
  cv::morphologyEx(edges, blocks, cv::MORPH_CLOSE, cv::Mat::ones(1, 15, CV_8U));
  cv::morphologyEx(blocks, blocks, cv::MORPH_OPEN, cv::Mat::ones(5, 9, CV_8U));
  const int n = cv::connectedComponentsWithStats(blocks, labels, stats, centres, 8, CV_32S);
  std::vector<cv::Rect> out;
  for (int i = 1; i < n; ++i) {
    const int* s = stats.ptr<int>(i);
    const cv::Rect box(s[cv::CC_STAT_LEFT], s[cv::CC_STAT_TOP], s[cv::CC_STAT_WIDTH], s[cv::CC_STAT_HEIGHT]);
    if (like_a_line(edges, box, s[cv::CC_STAT_AREA])) out.push_back(box);
  }
  return out;
}

}  // namespace

cv::Mat strong_edges(const cv::Mat& luma, int contrast) {
  cv::Mat range;
  cv::morphologyEx(luma, range, cv::MORPH_GRADIENT, cv::Mat::ones(3, 3, CV_8U));
  return range > contrast;
}

cv::Mat lasting_edges(const std::vector<cv::Mat>& lumas, int contrast) {
  cv::Mat edges = strong_edges(lumas.front(), contrast), low = lumas.front().clone(), high = low.clone();
  for (size_t i = 1; i < lumas.size(); ++i) {
    edges &= strong_edges(lumas[i], contrast);
    cv::min(low, lumas[i], low);
    cv::max(high, lumas[i], high);
  }
  edges &= (high - low) <= contrast / 2;
  return edges;
}

double text_share(const cv::Mat& edges) {
  cv::Mat covered = cv::Mat::zeros(edges.size(), CV_8U), small, thick;
  const cv::Rect all({}, edges.size());
  for (int scale = 1; scale == 1 || edges.rows / scale >= kSmallestPicture; scale *= 2) {
    if (edges.cols / scale < 1) break;
    if (scale == 1)
      thick = edges;
    else {
      cv::resize(edges, small, {edges.cols / scale, edges.rows / scale}, 0, 0, cv::INTER_AREA);
      thick = small > 63;  // a quarter of the pixels it represents
    }
    for (const auto& box : lines_of(thick)) {
      const cv::Rect whole(box.x * scale, box.y * scale, box.width * scale, box.height * scale);
      covered(whole & all).setTo(255);
    }
  }
  return static_cast<double>(cv::countNonZero(covered)) / static_cast<double>(covered.total());
}

}  // namespace kinora::filters
