// Where a picture looks like text: lines of dense, strong edges.
//
// Strokes give many edges close together, whatever the script, so closing the map of edges along a row joins
// the letters of a line into a block and opening takes away what is thinner than letters. Blocks of a line's
// shape, filled as letters fill a line, count. The same on the map at half, quarter, ... size finds larger
// letters. Windows, fences and foliage can pass for text in one picture; text laid over a film keeps its
// place and its light from frame to frame, so only edges that do are looked at (the method after Cai et al.,
// "A new approach for video text detection", ICIP 2002: multi-frame integration, edge density, projection;
// shapes and bounds measured here).
#pragma once
#include <vector>

#include <opencv2/core.hpp>

namespace kinora::filters {

// [H, W] of 255 where the luma changes by more than `contrast` within three pixels.
cv::Mat strong_edges(const cv::Mat& luma, int contrast);

// Strong edges that every one of these pictures has, where none changes by more than half the contrast: [H,
// W] of 255.
cv::Mat lasting_edges(const std::vector<cv::Mat>& lumas, int contrast);

// The share of the picture that blocks shaped like lines of text cover.
double text_share(const cv::Mat& edges);

}  // namespace kinora::filters
