#include "frames.hpp"

#include <opencv2/imgproc.hpp>

namespace kinora::filters {
namespace {

// OpenCV stores rows, columns and the bytes of a row as int.
constexpr int64_t kLongestSide = 32768;

}  // namespace

Frames::Frames(const Sample& sample) : pictures_(pictures_of(sample, kLongestSide)) {}

cv::Mat Frames::rgb(int64_t i) const {
  return {height(), width(), CV_8UC3, const_cast<uint8_t*>(pictures_.frame(i))};
}

cv::Mat Frames::luma(int64_t i) const {
  cv::Mat out;
  cv::cvtColor(rgb(i), out, cv::COLOR_RGB2GRAY);
  return out;
}

}  // namespace kinora::filters
