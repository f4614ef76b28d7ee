// Any bytes as a video: frames, an error, or both; never more frames or larger pictures than the limits
// allow.
#include <cstdlib>

#include "plugins/stages/video/media/byte_source.hpp"
#include "plugins/stages/video/media/decoder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora::video;
  constexpr int64_t kFrames = 40, kPixels = 1 << 20;
  MemorySource source{std::span(data, size)};
  try {
    Decoder decoder(source, "input", {.limits = {.max_pixels = kPixels}, .max_frames = kFrames});
    int64_t n = 0;
    for (int64_t last = -1; const Frame* frame = decoder.next(); last = frame->index, ++n)
      if (frame->index != last + 1 || n >= kFrames) std::abort();
  } catch (const MediaError& error) {
    if (*error.what() == 0) std::abort();
  }
  return 0;
}
