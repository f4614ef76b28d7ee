#pragma once

#include <cstddef>
#include <cstdint>

namespace kinora::video {

// One plane of pixels. `bytes` is borrowed; rows are `stride` bytes apart.
struct Plane {
  uint8_t* bytes = nullptr;
  ptrdiff_t stride = 0;
};

// Turns a plane of width x height pixels clockwise by 0, 90, 180 or 270 degrees into `to`, which has height x width
// pixels after a quarter turn. pixel_bytes is 1 or 3. The planes must not overlap.
void rotate_plane(Plane from, int width, int height, int pixel_bytes, int degrees, Plane to);

}  // namespace kinora::video
