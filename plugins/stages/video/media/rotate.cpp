#include "media/rotate.hpp"

#include <cstring>

namespace kinora::video {
namespace {

template <int kBytes>
void rotate(Plane from, int width, int height, int degrees, Plane to) {
  // Position of the source's top left pixel in `to`, and the steps in `to` for one pixel right and one down in the
  // source.
  ptrdiff_t origin = 0, right = kBytes, down = to.stride;
  if (degrees == 90) {
    origin = ptrdiff_t{kBytes} * (height - 1), right = to.stride, down = -kBytes;
  } else if (degrees == 180) {
    origin = to.stride * (height - 1) + ptrdiff_t{kBytes} * (width - 1), right = -kBytes, down = -to.stride;
  } else if (degrees == 270) {
    origin = to.stride * (width - 1), right = -to.stride, down = kBytes;
  }
  for (int y = 0; y < height; ++y) {
    const uint8_t* source = from.bytes + from.stride * y;
    uint8_t* target = to.bytes + origin + down * y;
    if (degrees == 0) {
      std::memcpy(target, source, static_cast<size_t>(kBytes) * static_cast<size_t>(width));
      continue;
    }
    for (int x = 0; x < width; ++x) std::memcpy(target + right * x, source + ptrdiff_t{kBytes} * x, kBytes);
  }
}

}  // namespace

void rotate_plane(Plane from, int width, int height, int pixel_bytes, int degrees, Plane to) {
  if (pixel_bytes == 1) {
    rotate<1>(from, width, height, degrees, to);
  } else {
    rotate<3>(from, width, height, degrees, to);
  }
}

}  // namespace kinora::video
