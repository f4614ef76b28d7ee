#pragma once

#include <tuple>

#include "media/ffmpeg.hpp"
#include "media/scaler.hpp"

namespace kinora::video {

// The YUV matrix and range of a frame: its tags, or the assumption for untagged frames of its size.
AVColorSpace matrix_of(const AVFrame& frame);
AVColorRange range_of(const AVFrame& frame);

// Converts size, pixel format and colour from one frame to another with swscale, bit-exact.
//
// [owner-thread] Caches the tables of the last kind of conversion.
class PixelConverter {
 public:
  // Fills `to`, which has writable buffers and gives the target size, format, matrix and range. MediaError if swscale
  // cannot convert between the two formats.
  void convert(const AVFrame& from, AVFrame& to, Filter filter);

 private:
  using Kind = std::tuple<int, int, int, int, int, int, int, int, int, int, Filter>;
  void prepare(const AVFrame& from, const AVFrame& to, Filter filter);

  Kind kind_{};
  ff::Owned<SwsContext> tables_;
};

// Returns a frame buffer of this size and format, padded and aligned as FFmpeg requires.
ff::Owned<AVFrame> allocate_picture(int width, int height, AVPixelFormat format);

// Returns a copy of packed RGB, [height, width, 3] uint8, as a frame.
ff::Owned<AVFrame> picture_of_rgb(const uint8_t* rgb, int width, int height);

}  // namespace kinora::video
