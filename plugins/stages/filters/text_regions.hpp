// Finds parts of a picture that look like text: lines of dense, strong edges.
//
// In any script, strokes give many edges close together, so closing the edge map along rows joins the letters
// of a line into a block, and opening removes everything thinner than letters. A block counts if it has the
// shape of a line and letters fill it as they fill a line. The same steps on the map at half, quarter, ...
// size find larger letters. Windows, fences and foliage can pass for text in a single frame; overlaid text
// keeps its position and brightness from frame to frame, so only edges that persist are examined (the method
// follows Cai et al., "A new approach for video text detection", ICIP 2002: multi-frame integration, edge
// density, projection; the shapes and bounds are our own measurements).
#pragma once
#include <vector>

#include <opencv2/core.hpp>

namespace kinora::filters {

// Returns [H, W], 255 where the luma changes by more than `contrast` within three pixels.
cv::Mat strong_edges(const cv::Mat& luma, int contrast);

// Returns [H, W], 255 at strong edges that all these frames share and where no frame changes by more than
// half the contrast.
cv::Mat lasting_edges(const std::vector<cv::Mat>& lumas, int contrast);

// Returns the share of the picture covered by blocks shaped like lines of text.
double text_share(const cv::Mat& edges);

}  // namespace kinora::filters
