// The pictures of a sample: its tensor `frames`, seen through OpenCV without a copy.
#pragma once
#include <vector>

#include <opencv2/core.hpp>

#include "kinora/sample.hpp"

namespace kinora::filters {

// T pictures of height x width, RGB of 8 bits, borrowed from the sample.
class Frames {
 public:
  // Error(KINORA_NOT_FOUND) if the sample has none, with what to set; Error(KINORA_DATA) if there is no picture in
  // it or it is no row-major uint8 [T, H, W, 3] on the CPU.
  explicit Frames(const Sample& sample);

  int64_t count() const { return count_; }
  int height() const { return height_; }
  int width() const { return width_; }
  double pixels() const { return static_cast<double>(height_) * width_; }
  // [H, W] of three channels; valid as long as the sample.
  cv::Mat rgb(int64_t i) const;
  // [H, W] full-range luma by BT.601, as OpenCV's COLOR_RGB2GRAY rounds it.
  cv::Mat luma(int64_t i) const;

 private:
  const uint8_t* data_ = nullptr;
  int64_t count_ = 0;
  int height_ = 0, width_ = 0;
};

}  // namespace kinora::filters
