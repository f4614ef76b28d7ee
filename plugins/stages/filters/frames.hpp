// A sample's tensor `frames`, viewed through OpenCV without a copy.
#pragma once
#include <vector>

#include <opencv2/core.hpp>

#include "kinora/curation.hpp"

namespace kinora::filters {

// T frames of height x width, RGB of 8 bits, borrowed from the sample.
class Frames {
 public:
  // Throws like pictures_of(), and for sides above 32768 pixels, OpenCV's limit.
  explicit Frames(const Sample& sample);

  int64_t count() const { return pictures_.count; }
  int height() const { return static_cast<int>(pictures_.height); }
  int width() const { return static_cast<int>(pictures_.width); }
  double pixels() const { return static_cast<double>(pictures_.height * pictures_.width); }
  // [H, W] with three channels; valid as long as the sample.
  cv::Mat rgb(int64_t i) const;
  // [H, W] full-range luma by BT.601, as OpenCV's COLOR_RGB2GRAY rounds it.
  cv::Mat luma(int64_t i) const;

 private:
  Pictures pictures_;
};

}  // namespace kinora::filters
