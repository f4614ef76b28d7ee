// Optical flow between two frames, as lengths that depend on neither the size nor the shape of the picture.
#pragma once
#include <opencv2/core.hpp>

namespace kinora::filters {

// In fractions of the picture's diagonal.
struct Flow {
  double mean = 0;
  double p10 = 0;  // 10th percentile: above 0 only if the camera moves
};

// G. Farneback, "Two-Frame Motion Estimation Based on Polynomial Expansion", SCIA 2003, as implemented by
// OpenCV. (OpenCV's dense inverse search is faster, but reads outside the picture on flat frames, which
// hostile input may contain.)
//
// [owner-thread]
class FlowMeter {
 public:
  // Smallest side of a picture that the search accepts.
  static constexpr int kSmallest = 32;

  // Lumas of one size, both sides at least kSmallest.
  Flow between(const cv::Mat& before, const cv::Mat& after);

 private:
  cv::Mat vectors_;
};

}  // namespace kinora::filters
