#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace kinora::video {

// Encodes a picture [height, width, 3] uint8 RGB as an image file; the bytes are reproducible.
//   "png"   lossless; `quality` is ignored
//   "jpeg"  quality 1 to 100; from 90 on with full chroma (4:4:4), below with 4:2:0
// [any-thread] MediaError for another format, a quality out of range, or sides outside 1..16384.
std::vector<uint8_t> encode_image(const uint8_t* rgb, int height, int width, std::string_view format,
                                  int quality = 90);

}  // namespace kinora::video
