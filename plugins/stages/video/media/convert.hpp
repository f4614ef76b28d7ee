#pragma once

#include <tuple>

#include "media/ffmpeg.hpp"
#include "media/scaler.hpp"

namespace kinora::video {

// The YUV matrix and range a frame is in: its tags, or what an untagged frame of its size is taken for.
AVColorSpace matrix_of(const AVFrame& frame);
AVColorRange range_of(const AVFrame& frame);

// Sizes, pixel formats and colour from one frame to another by swscale, bit-exact.
//
// [owner-thread] Keeps the tables of the last kind of conversion.
class PixelConverter {
 public:
  // Fills `to`, whose size, format, matrix and range say what is wanted and whose buffers are writable, from
  // `from`. MediaError when swscale cannot convert between the two formats.
  void convert(const AVFrame& from, AVFrame& to, Filter filter);

 private:
  using Kind = std::tuple<int, int, int, int, int, int, int, int, int, int, Filter>;
  void prepare(const AVFrame& from, const AVFrame& to, Filter filter);

  Kind kind_{};
  ff::Owned<SwsContext> tables_;
};

// A picture buffer of this size and format, padded and aligned as FFmpeg wants it.
ff::Owned<AVFrame> allocate_picture(int width, int height, AVPixelFormat format);

// A copy of packed RGB, [height, width, 3] uint8, as a frame.
ff::Owned<AVFrame> picture_of_rgb(const uint8_t* rgb, int width, int height);

}  // namespace kinora::video
