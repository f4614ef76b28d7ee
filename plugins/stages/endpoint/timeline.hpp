// Assigns frames to requests.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kinora::endpoint {

// Frames [begin, end) of a video.
struct Window {
  int64_t begin = 0, end = 0;
};

// Cosmos-Curate's windows of `size` frames: a rest of at least `remainder` frames is a window of its own, a
// shorter one is joined to the last window. A video of fewer than 4 frames has no windows.
std::vector<Window> windows(int64_t frames, int64_t size, int64_t remainder);

// Times of a video's sampled frames, [T].
struct Timeline {
  std::vector<double> at;  // seconds from the start; rising
  double fps = 0;          // frame rate of the video; 0: the samples are all its frames
  int64_t frames = 0;      // number of frames of the video; 0: derived from the last sample

  int64_t video_frames() const;
  // Returns the index of the video's frame that sample i shows.
  int64_t frame(size_t i) const;
  // Returns the samples in the window, at most one per 1 / rate seconds (rate 0: all), evenly thinned out if
  // there are more than `most`.
  std::vector<size_t> pick(const Window& window, double rate, int64_t most) const;
};

// Returns `most` evenly spread indices of 0 .. n - 1, including the first and the last; all if n is not
// larger.
std::vector<size_t> spread(size_t n, int64_t most);

}  // namespace kinora::endpoint
