#include "flow.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace kinora::filters {

FlowMeter::FlowMeter() : search_(cv::DISOpticalFlow::create(cv::DISOpticalFlow::PRESET_FAST)) {
  // The search goes in as many stripes as OpenCV has threads, and vectors do not cross them: only one stripe gives the
  // same numbers everywhere. The engine runs samples side by side instead.
  cv::setNumThreads(1);
}

Flow FlowMeter::between(const cv::Mat& before, const cv::Mat& after) {
  search_->calc(before, after, vectors_);
  std::vector<double> lengths;
  lengths.reserve(vectors_.total());
  double sum = 0;
  for (const auto& v : cv::Mat_<cv::Vec2f>(vectors_)) {
    lengths.push_back(std::hypot(v[0], v[1]));
    sum += lengths.back();
  }
  const auto tenth = lengths.begin() + static_cast<std::ptrdiff_t>((lengths.size() - 1) / 10);
  std::nth_element(lengths.begin(), tenth, lengths.end());
  const double diagonal = std::hypot(before.cols, before.rows);
  return {sum / static_cast<double>(lengths.size()) / diagonal, *tenth / diagonal};
}

}  // namespace kinora::filters
