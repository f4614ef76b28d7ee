// Any bytes as a JPEG: a picture within the limits, written within its rows, an error, or none of it.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "plugins/stages/video/media/jpeg.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora::video;
  constexpr int64_t kPixels = 1 << 18;
  constexpr size_t kAfter = 64;  // bytes behind the picture, which stay as they are
  MemorySource source{std::span(data, size)};
  try {
    auto picture = JpegPicture::open(source, "input", {.max_pixels = kPixels});
    if (!picture) return 0;
    const int64_t pixels = int64_t{picture->width()} * picture->height();
    if (pixels < 1 || pixels > kPixels) std::abort();
    std::vector<uint8_t> rgb(static_cast<size_t>(3 * pixels) + kAfter, 77);
    picture->decode(rgb.data(), 3 * picture->width());
    if (std::any_of(rgb.end() - kAfter, rgb.end(), [](uint8_t b) { return b != 77; })) std::abort();
  } catch (const MediaError& error) {
    if (*error.what() == 0) std::abort();
  }
  return 0;
}
