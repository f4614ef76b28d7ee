#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "media/crop.hpp"
#include "media/probe.hpp"
#include "media/scaler.hpp"

namespace kinora::video {

// [T, height, width, 3] uint8, RGB, upright.
struct SampledFrames {
  std::vector<uint8_t> pixels;
  int64_t height = 0, width = 0;
  std::vector<double> at;  // seconds of each from the start
  int64_t count() const { return static_cast<int64_t>(at.size()); }
};

// The size of a picture as it is shown (rotated, square pixels), `height` pixels high; 0: as high as it is.
struct ShownSize {
  int width = 0, height = 0;
};
ShownSize shown_size(const VideoInfo& video, const Crop& stored, int64_t height);

// offer() has gone over its limit.
class TooManySamples : public MediaError {
 public:
  using MediaError::MediaError;
};

// Takes some of the frames that pass: for every multiple of 1 / fps seconds the first one at or after it.
// [owner-thread]
class ClipSampler {
 public:
  // most: bytes of pixels; more makes offer() throw TooManySamples.
  ClipSampler(const VideoInfo& video, const Crop& stored, double fps, int64_t height, int64_t most);

  // seconds: from the start of what is sampled, ascending.
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
