#pragma once

#include "media/ffmpeg.hpp"
#include "media/media_error.hpp"

namespace kinora::video {

// A part of a picture, in pixels. Zero width: the whole picture.
struct Crop {
  int x = 0, y = 0, width = 0, height = 0;
  bool empty() const { return width <= 0 || height <= 0; }
};

// Returns the even rectangle inside `upright` (chroma is cut where luma is), in coordinates of the stored picture of
// width x height pixels, which a turn by `rotation` degrees clockwise makes upright. MediaError if `upright` is not
// within the picture.
inline Crop stored_crop(const Crop& upright, int width, int height, int rotation) {
  const int right = upright.x + upright.width, bottom = upright.y + upright.height;
  Crop c{(upright.x + 1) & ~1, (upright.y + 1) & ~1, 0, 0};
  c.width = (right & ~1) - c.x;
  c.height = (bottom & ~1) - c.y;
  const bool turned = rotation % 180 != 0;
  const int w = turned ? height : width, h = turned ? width : height;
  if (upright.x < 0 || upright.y < 0 || c.width < 2 || c.height < 2 || right > w || bottom > h)
    throw MediaError("crop of " + std::to_string(upright.width) + " x " + std::to_string(upright.height) +
                     " at (" + std::to_string(upright.x) + ", " + std::to_string(upright.y) +
                     ") is not within a picture of " + std::to_string(w) + " x " + std::to_string(h) +
                     "; fix the fact crop or set crop = false");
  if (rotation == 90) return {c.y, height - c.x - c.width, c.height, c.width};
  if (rotation == 180) return {width - c.x - c.width, height - c.y - c.height, c.width, c.height};
  if (rotation == 270) return {width - c.y - c.height, c.x, c.height, c.width};
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

}  // namespace kinora::video
