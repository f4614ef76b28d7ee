// Samples frames for other stages from the same decode as the detectors: frames at even intervals, and thumbnails for
// TransNetV2.
#pragma once

#include <vector>

#include "kinora/sample.hpp"
#include "media/probe.hpp"
#include "media/scaler.hpp"
#include "shots/shot_clock.hpp"
#include "media/spilled_tensor.hpp"

struct AVFrame;
struct SwsContext;

namespace kinora::video {

// Samples the first frame at or after every multiple of `every` seconds, upright, RGB.
class FrameSampler {
 public:
  // height: pixels; 0 keeps the size. The width follows from the displayed aspect.
  FrameSampler(const VideoInfo& video, double every, int64_t height);

  void push(const AVFrame& frame, const Moment& now);
  // Sets the tensor `frames`, uint8 [T, H, W, 3]; returns each frame's seconds from the start of the video.
  std::vector<double> give(Sample& to);

 private:
  EvenTimes times_;
  ScalerOptions size_;
  Scaler scaler_;
  std::vector<double> seconds_;
  SpilledTensor pixels_;
};

// Scales every frame to 48 x 27, upright, as `ffmpeg -s 48x27 -pix_fmt rgb24` does (bicubic; the frame's matrix and range).
class Thumbnailer {
 public:
  static constexpr int kWidth = 48, kHeight = 27;

  explicit Thumbnailer(int rotation) : rotation_(rotation) {}
  ~Thumbnailer();
  Thumbnailer(const Thumbnailer&) = delete;
  Thumbnailer& operator=(const Thumbnailer&) = delete;

  void push(const AVFrame& frame);
  // Sets the tensor `thumbnails`, uint8 [T, 27, 48, 3], RGB.
  void give(Sample& to) { pixels_.give(to, "thumbnails", {kHeight, kWidth, 3}); }

 private:
  void prepare(const AVFrame& frame);

  int rotation_;
  SwsContext* scale_ = nullptr;
  int from_[5]{};  // width, height, format, matrix, range
  std::vector<uint8_t> padded_;
  SpilledTensor pixels_;
};

}  // namespace kinora::video
