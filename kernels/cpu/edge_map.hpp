// The edges of a frame's brightness as PySceneDetect's ContentDetector counts them: OpenCV's Canny (3 x 3
// Sobel, sum of magnitudes, thresholds around the median), widened to squares. All of it integer arithmetic,
// equal to OpenCV's to the bit.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/content_score.hpp"

namespace kinora {

// PySceneDetect's width of the squares: 4 + sqrt(width * height) / 192, rounded half to even, made odd.
int edge_kernel_size(FrameSize size);

struct EdgeThresholds {
  int low = 0;
  int high = 0;
};
// 2/3 and 4/3 of the median of `value`, cut off to integers, at most 255.
EdgeThresholds edge_thresholds(const uint8_t* value, size_t n);

// value: [height, width]. Result of the same shape: 255 on an edge, else 0.
std::vector<uint8_t> canny(const uint8_t* value, FrameSize size, const EdgeThresholds& thresholds);

// 255 wherever the square of `kernel` pixels around a pixel (odd; inside the frame) contains a 255.
std::vector<uint8_t> widen_edges(const std::vector<uint8_t>& edges, FrameSize size, int kernel);

}  // namespace kinora
