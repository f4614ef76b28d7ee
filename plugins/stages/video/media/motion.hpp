#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "media/byte_source.hpp"
#include "media/probe.hpp"

struct AVMotionVector;

namespace kinora::video {

// Measures motion in a video by its own motion vectors, as Cosmos-Curate does
// (pipelines/video/filtering/motion/motion_vector_backend.py).

struct MotionOptions {
  double fps = 2;         // rate of the examined frames
  double duration = 0.5;  // share of the video's length from its start
  int threads = 1;        // decoder threads
};

struct Motion {
  // Mean over frames and pixels of the vector's length as a fraction of width + height; -1 if no examined
  // frame has vectors.
  double global_mean = -1;
  // Smallest of the mean vector lengths at the centres of a grid of 256 x 256 pixels.
  double patch_min = -1;
  int64_t frames = 0;  // number with vectors
};

// Accumulates the vectors of successive pictures. H, W: pixels.
//
// Every vector of an 8x8, 16x16, 16x8 or 8x16 block paints the block, in this order of sizes and within a
// size in the decoder's order, later ones over earlier ones; parts outside the picture paint its border.
// Memory: two numbers per pixel, whatever the length of the video.
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

// Examines every round(rate / fps)-th frame until max(10, round(fps * seconds * duration)) of them had
// vectors; intra frames have none. seconds: the container's length in whole seconds, 30 if that is 0.
// Rounding is half to even, as in Python. MediaError if the video cannot be read, or if its codec gives no
// vectors (H.264, MPEG-4 and their ancestors do). check: called regularly; an exception from it ends the
// call.
Motion measure_motion(ByteSource& video, const std::string& name, const MotionOptions& options,
                      const std::function<void()>& check = {});

}  // namespace kinora::video
