// Optical flow between two frames, as lengths that depend on neither size nor shape of the picture.
#pragma once
#include <opencv2/core.hpp>

namespace kinora::filters {

// In fractions of the picture's diagonal.
struct Flow {
  double mean = 0;
  double p10 = 0;  // a tenth of the pixels move less: above 0 only where the camera moves
};

// G. Farneback, "Two-Frame Motion Estimation Based on Polynomial Expansion", SCIA 2003, by OpenCV. (Its dense
// inverse search is faster, and reads outside the picture on flat ground, which hostile input may be.)
//
// [owner-thread]
class FlowMeter {
 public:
  // Smallest side of a picture that the search takes.
  static constexpr int kSmallest = 32;

  FlowMeter();
  // Lumas of one size, both sides at least kSmallest.
  Flow between(const cv::Mat& before, const cv::Mat& after);

 private:
  cv::Mat vectors_;
};

}  // namespace kinora::filters
