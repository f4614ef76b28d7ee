// Scales every frame to 48 x 27, upright, as `ffmpeg -s 48x27 -pix_fmt rgb24` does (bicubic; the frame's
// matrix and range): what TransNet V2 looks at.
#pragma once
#include <cstdint>
#include <vector>

#include "media/ffmpeg.hpp"
#include "media/probe.hpp"

namespace kinora::video {

// [owner-thread] One video.
class Thumbnailer {
 public:
  static constexpr int kWidth = 48, kHeight = 27;
  static constexpr size_t kBytes = size_t{3} * kWidth * kHeight;

  explicit Thumbnailer(Orientation rotation) : rotation_(rotation) {}
  ~Thumbnailer();
  Thumbnailer(const Thumbnailer&) = delete;
  Thumbnailer& operator=(const Thumbnailer&) = delete;

  // rgb: receives [27, 48, 3].
  void scale(const AVFrame& frame, uint8_t* rgb);

 private:
  void prepare(const AVFrame& frame);

  Orientation rotation_;
  SwsContext* scale_ = nullptr;
  int from_[5]{};  // width, height, format, matrix, range
  std::vector<uint8_t> padded_;
};

}  // namespace kinora::video
