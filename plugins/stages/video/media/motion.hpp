#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "media/byte_source.hpp"
#include "media/probe.hpp"

struct AVMotionVector;

namespace kinora::video {

// How much moves in a video by its own motion vectors, as Cosmos-Curate measures it
// (pipelines/video/filtering/motion/motion_vector_backend.py).

struct MotionOptions {
  double fps = 2;         // of the frames looked at
  double duration = 0.5;  // share of the video's length from its start
  int threads = 1;        // of the decoder
};

struct Motion {
  // Mean over frames and pixels of the vector's length as a fraction of width + height; -1 when no frame that
  // was looked at has vectors.
  double global_mean = -1;
  // The least of the mean vector lengths at the centres of a grid of 256 x 256 pixels.
  double patch_min = -1;
  int64_t frames = 0;  // that had vectors
};

// One picture's vectors after another, added up. H, W: pixels.
//
// Every vector of an 8x8, 16x16, 16x8 or 8x16 block paints the block, in this order of sizes and within a
// size in the decoder's, the later over the earlier; what reaches out of the picture paints its border.
// Memory: two numbers a pixel, whatever the length of the video.
class MotionField {
 public:
  MotionField(int width, int height);
  void add(const AVMotionVector* vectors, size_t count);
  Motion result() const;

 private:
  void paint(const AVMotionVector& vector);
  double patch_min() const;

  int width_, height_;
  std::vector<float> lengths_;  // [H, W] of the picture being added
  std::vector<double> sums_;    // [H, W] over pictures
  int64_t frames_ = 0;
};

// Looks at every round(rate / fps)-th frame until max(10, round(fps * seconds * duration)) of them had
// vectors; intra frames have none. seconds: the container's length in whole seconds, 30 when that is 0.
// Rounding is half to even, as Python's. MediaError: the video cannot be read, or its codec gives no vectors
// (H.264, MPEG-4 and their ancestors do). check: called now and then; what it throws ends the call.
Motion measure_motion(ByteSource& video, const std::string& name, const MotionOptions& options,
                      const std::function<void()>& check = {});

}  // namespace kinora::video
