// Any bytes as a picture file: a size within the limits, or an error with a text.
#include <cstdlib>

#include "plugins/stages/video/media/picture_header.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora::video;
  constexpr int64_t kPixels = 1 << 18;
  const std::span file(data, size);
  if (!begins_as_picture(file)) return 0;
  try {
    const auto picture = picture_header(file, "input", {.max_pixels = kPixels});
    if (picture.width < 1 || picture.height < 1 || picture.width > kPixels / picture.height) std::abort();
  } catch (const MediaError& error) {
    if (*error.what() == 0) std::abort();
  }
  return 0;
}
