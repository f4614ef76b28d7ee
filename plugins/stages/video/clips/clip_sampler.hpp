#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "media/convert.hpp"
#include "media/probe.hpp"
#include "media/scaler.hpp"

namespace kinora::video {

// [T, height, width, 3] uint8, RGB, upright.
struct SampledFrames {
  std::vector<uint8_t> pixels;
  int64_t height = 0, width = 0;
  std::vector<double> at;  // seconds of each frame from the start
  int64_t count() const { return static_cast<int64_t>(at.size()); }
};

// Size of a frame as shown (rotated, square pixels), `height` pixels high; 0 keeps its height.
struct ShownSize {
  int width = 0, height = 0;
};
ShownSize shown_size(const VideoInfo& video, const Crop& stored, int64_t height);

// Thrown when offer() exceeds its limit.
class TooManySamples : public MediaError {
 public:
  using MediaError::MediaError;
};

// Samples offered frames: for every multiple of 1 / fps seconds the first frame at or after it.
// [owner-thread]
class ClipSampler {
 public:
  // most: largest number of bytes of pixels; beyond it offer() throws TooManySamples.
  ClipSampler(const VideoInfo& video, const Crop& stored, double fps, int64_t height, int64_t most);

  // seconds: time of the frame since the start of the sampled range, ascending.
  void offer(const AVFrame& frame, double seconds);
  SampledFrames take() { return std::move(out_); }

 private:
  Crop crop_;
  double fps_;
  size_t most_;
  int64_t next_ = 0;
  ShownSize size_;
  Scaler scaler_;
  SampledFrames out_;
};

}  // namespace kinora::video
