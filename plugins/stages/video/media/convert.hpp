// Decoded frames changed in memory: converted, cut, turned.
#pragma once
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <tuple>

#include "media/byte_source.hpp"
#include "media/ffmpeg.hpp"
#include "media/probe.hpp"
#include "media/scaler.hpp"

namespace kinora::video {

// The YUV matrix and range of a frame: its tags, or the assumption for untagged frames of its size and format.
AVColorSpace matrix_of(const AVFrame& frame);
AVColorRange range_of(const AVFrame& frame);

// Converts size, pixel format and colour from one frame to another with swscale, bit-exact.
//
// [owner-thread] Caches the tables of the last kind of conversion.
class PixelConverter {
 public:
  // Fills `to`, which has writable buffers and gives the target size, format, matrix and range. MediaError if
  // swscale cannot convert between the two formats.
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

// The properties that all pictures of a clip share: a file has one size and one set of tags.
struct PictureForm {
  int width = 0, height = 0;
  AVPixelFormat format = AV_PIX_FMT_NONE;  // the J formats as plain ones
  Rational sample_aspect;
  Colour colour;  // matrix and range as assumed for untagged frames

  static PictureForm of(const AVFrame& frame);
  // Primaries and transfer count only where both forms have them.
  friend bool operator==(const PictureForm& a, const PictureForm& b);
  std::string text() const;  // "640 x 360 yuv420p, pixels 1:1, bt709, tv"
};

// A part of a picture, in pixels. Zero width: the whole picture.
struct Crop {
  int x = 0, y = 0, width = 0, height = 0;
  bool empty() const { return width <= 0 || height <= 0; }
};

// Returns the even rectangle inside `upright` (chroma is cut where luma is), in coordinates of the stored
// picture of width x height pixels, which `rotation` makes upright. MediaError if `upright` is not within the
// picture.
inline Crop stored_crop(const Crop& upright, int width, int height, Orientation rotation) {
  const int right = upright.x + upright.width, bottom = upright.y + upright.height;
  Crop c{(upright.x + 1) & ~1, (upright.y + 1) & ~1, 0, 0};
  c.width = (right & ~1) - c.x;
  c.height = (bottom & ~1) - c.y;
  const bool turned = rotation.swaps_sides();
  const int w = turned ? height : width, h = turned ? width : height;
  if (upright.x < 0 || upright.y < 0 || c.width < 2 || c.height < 2 || right > w || bottom > h)
    throw MediaError("crop of " + std::to_string(upright.width) + " x " + std::to_string(upright.height) +
                     " at (" + std::to_string(upright.x) + ", " + std::to_string(upright.y) +
                     ") is not within a picture of " + std::to_string(w) + " x " + std::to_string(h) +
                     "; fix the fact crop or set crop = false");
  if (rotation.degrees == 90) c = {c.y, height - c.x - c.width, c.height, c.width};
  if (rotation.degrees == 180) c = {width - c.x - c.width, height - c.y - c.height, c.width, c.height};
  if (rotation.degrees == 270) c = {width - c.y - c.height, c.x, c.height, c.width};
  if (rotation.mirrored) c.x = width - c.x - c.width;
  return c;
}

// Returns a reference to that part of the frame, or to the whole frame for an empty crop.
inline ff::Owned<AVFrame> cropped(const AVFrame& frame, const Crop& stored) {
  auto part = ff::new_frame();
  if (av_frame_ref(part.get(), &frame) < 0) throw std::bad_alloc();
  if (stored.empty()) return part;
  if (stored.x + stored.width > frame.width || stored.y + stored.height > frame.height)
    throw MediaError("the picture shrinks to " + std::to_string(frame.width) + " x " +
                     std::to_string(frame.height) +
                     " within the video, and the crop does not fit any more; set crop = false");
  part->crop_left = static_cast<size_t>(stored.x);
  part->crop_top = static_cast<size_t>(stored.y);
  part->crop_right = static_cast<size_t>(frame.width - stored.x - stored.width);
  part->crop_bottom = static_cast<size_t>(frame.height - stored.y - stored.height);
  if (av_frame_apply_cropping(part.get(), AV_FRAME_CROP_UNALIGNED) < 0)
    throw MediaError("frames of this pixel format cannot be cropped; set crop = false");
  return part;
}

// One plane of pixels. `bytes` is borrowed; rows are `stride` bytes apart.
struct Plane {
  uint8_t* bytes = nullptr;
  ptrdiff_t stride = 0;
};

// Makes a stored plane of width x height pixels upright into `to`, which has height x width pixels after a quarter
// turn. pixel_bytes is 1 or 3. The planes must not overlap.
void rotate_plane(Plane from, int width, int height, int pixel_bytes, Orientation rotation, Plane to);

}  // namespace kinora::video
