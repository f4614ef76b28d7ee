// Frames that stages beside the detectors look at, taken from the same decode: pictures at even times, and the thumbnails
// of TransNetV2.
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

// The first frame at or after every multiple of `every` seconds, upright, RGB.
class FrameSampler {
 public:
  // height: pixels, 0 leaves the size; the width follows from the displayed aspect.
  FrameSampler(const VideoInfo& video, double every, int64_t height);

  void push(const AVFrame& frame, const Moment& now);
  // The tensor `frames`, uint8 [T, H, W, 3], on the sample; seconds of each frame from the start of the film.
  std::vector<double> give(Sample& to);

 private:
  EvenTimes times_;
  ScalerOptions size_;
  Scaler scaler_;
  std::vector<double> seconds_;
  SpilledTensor pixels_;
};

// Every frame at 48 x 27 as `ffmpeg -s 48x27 -pix_fmt rgb24` scales it (bicubic; the frame's matrix and range), upright.
class Thumbnailer {
 public:
  static constexpr int kWidth = 48, kHeight = 27;

  explicit Thumbnailer(int rotation) : rotation_(rotation) {}
  ~Thumbnailer();
  Thumbnailer(const Thumbnailer&) = delete;
  Thumbnailer& operator=(const Thumbnailer&) = delete;

  void push(const AVFrame& frame);
  // The tensor `thumbnails`, uint8 [T, 27, 48, 3], RGB.
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
