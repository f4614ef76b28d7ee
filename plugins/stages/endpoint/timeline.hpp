// Which frames go into which request.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kinora::endpoint {

// Frames [begin, end) of a video.
struct Window {
  int64_t begin = 0, end = 0;
};

// Cosmos-Curate's windows: of `size` frames; a rest of at least `remainder` frames is a window of its own, a
// shorter one belongs to the last. A video of fewer than 4 frames has none.
std::vector<Window> windows(int64_t frames, int64_t size, int64_t remainder);

// When the sampled frames of a video are. [T] times.
struct Timeline {
  std::vector<double> at;  // seconds from the start; rising
  double fps = 0;          // frames a second of the video; 0: the samples are taken for all its frames
  int64_t frames = 0;      // of the video; 0: as many as the last sample tells

  int64_t video_frames() const;
  // The frame of the video that sample i shows.
  int64_t frame(size_t i) const;
  // The samples in the window, at most one each 1 / rate seconds (rate 0: all), and evenly spread ones of
  // them if they are more than `most`.
  std::vector<size_t> pick(const Window& window, double rate, int64_t most) const;
};

// `most` indices of 0 .. n - 1, the first and the last among them, evenly spread; all if n is not larger.
std::vector<size_t> spread(size_t n, int64_t most);

}  // namespace kinora::endpoint
