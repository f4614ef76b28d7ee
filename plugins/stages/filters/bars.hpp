// Black bars around a picture: letterbox, pillarbox, both.
//
// A line (row or column) is lit in a frame if at least half of it is brighter than black; half, so that a
// subtitle inside a bar does not light a line. Everything outside the outermost line that is lit in any frame
// is a bar; any frame, because one bright frame shows what dark ones cannot. A bar ends in a straight edge:
// within three lines the picture must be clearly brighter than black along a third of a line. Otherwise the
// dark area belongs to the picture (a night sky, a stage).
#pragma once
#include <cstdint>
#include <functional>

#include <opencv2/core.hpp>

namespace kinora::filters {

struct Bars {
  int top = 0, bottom = 0, left = 0, right = 0;  // lines entirely covered by a bar
  // The next line inwards is partly covered, because the frames were scaled down.
  bool top_mixed = false, bottom_mixed = false, left_mixed = false, right_mixed = false;
};

// luma(i): [H, W] uint8, all of one size. All bars are 0 if no frame is bright enough to decide.
Bars find_bars(int64_t frames, const std::function<cv::Mat(int64_t)>& luma);

// Returns the picture inside the bars of frames of size `frame`, in pixels of the video of size `video`: even
// numbers, without any line of bar. If the frames are as large as the video, only an odd bar costs a line of
// picture; otherwise up to one line of the frames per side is lost.
cv::Rect picture_inside(const Bars& bars, cv::Size frame, cv::Size video);

}  // namespace kinora::filters
