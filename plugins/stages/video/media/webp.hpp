#pragma once

#include <cstdint>
#include <vector>

#include "media/probe.hpp"

namespace kinora::video {

// An animated WebP of RGB frames, each [height, width, 3] uint8, that repeats for ever. quality 1 to 100.
// [owner-thread] Keeps the encoded frames. MediaError: libwebp missing from this FFmpeg, or a bad size.
class WebpWriter {
 public:
  WebpWriter(int width, int height, Rational fps, int quality);
  ~WebpWriter();
  WebpWriter(const WebpWriter&) = delete;
  WebpWriter& operator=(const WebpWriter&) = delete;

  void write_rgb(const uint8_t* rgb);
  // The whole file. The writer is spent.
  std::vector<uint8_t> finish();

 private:
  struct State;
  State* state_;
};

}  // namespace kinora::video
