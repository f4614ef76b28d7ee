// Pictures as files: PNG, JPEG, animated WebP, and comments in them.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "media/probe.hpp"

namespace kinora::video {

// Encodes a picture [height, width, 3] uint8 RGB as an image file; the bytes are reproducible.
//   "png"   lossless; `quality` is ignored
//   "jpeg"  quality 1 to 100; from 90 on with full chroma (4:4:4), below with 4:2:0
// [any-thread] MediaError for another format, a quality out of range, or sides outside 1..16384.
std::vector<uint8_t> encode_image(const uint8_t* rgb, int height, int width, std::string_view format,
                                  int quality = 90);

// Writes an endlessly repeating animated WebP of RGB frames, each [height, width, 3] uint8. quality: 1 to
// 100. [owner-thread] Holds the encoded frames. MediaError if this FFmpeg lacks libwebp, or for a bad size.
class WebpWriter {
 public:
  WebpWriter(int width, int height, Rational fps, int quality);
  ~WebpWriter();
  WebpWriter(const WebpWriter&) = delete;
  WebpWriter& operator=(const WebpWriter&) = delete;

  void write_rgb(const uint8_t* rgb);
  // Returns the whole file. The writer must not be used afterwards.
  std::vector<uint8_t> finish();

 private:
  struct State;
  State* state_;
};

// Inserts an iTXt chunk "Comment" after the header (PNG, third edition, section 11.3.3.4); text: UTF-8.
std::vector<uint8_t> png_with_comment(std::vector<uint8_t> png, std::string_view text);

// Adds XMP with the text as dc:description (RFC 9649, section 2.7.1.5; XMP, ISO 16684-1). An image without
// the extended header gets one.
std::vector<uint8_t> webp_with_comment(std::vector<uint8_t> webp, std::string_view text, int width,
                                       int height);

}  // namespace kinora::video
