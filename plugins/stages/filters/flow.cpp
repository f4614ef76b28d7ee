#include "flow.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <opencv2/video/tracking.hpp>

namespace kinora::filters {

Flow FlowMeter::between(const cv::Mat& before, const cv::Mat& after) {
  // At most five halvings, which OpenCV stops at 32 pixels; windows of 15 pixels, two iterations, its usual
  // expansion.
  cv::calcOpticalFlowFarneback(before, after, vectors_, 0.5, 5, 15, 2, 5, 1.1, 0);
  std::vector<double> lengths;
  lengths.reserve(vectors_.total());
  const double diagonal = std::hypot(before.cols, before.rows);
  double sum = 0;
  for (const auto& v : cv::Mat_<cv::Vec2f>(vectors_)) {
    const double length = std::hypot(v[0], v[1]);
    // A vector longer than the diagonal is not a match.
    lengths.push_back(length <= diagonal ? length : 0);
    sum += lengths.back();
  }
  const auto tenth = lengths.begin() + static_cast<std::ptrdiff_t>((lengths.size() - 1) / 10);
  std::nth_element(lengths.begin(), tenth, lengths.end());
  return {sum / static_cast<double>(lengths.size()) / diagonal, *tenth / diagonal};
}

}  // namespace kinora::filters
