// Optical flow between two frames, as lengths that depend on neither size nor shape of the picture.
#pragma once
#include <opencv2/core.hpp>
#include <opencv2/video/tracking.hpp>

namespace kinora::filters {

// In fractions of the picture's diagonal.
struct Flow {
  double mean = 0;
  double p10 = 0;  // a tenth of the pixels move less: above 0 only where the camera moves
};

// T. Kroeger et al., "Fast Optical Flow using Dense Inverse Search", ECCV 2016, by OpenCV.
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
  cv::Ptr<cv::DISOpticalFlow> search_;
  cv::Mat vectors_;
};

}  // namespace kinora::filters
