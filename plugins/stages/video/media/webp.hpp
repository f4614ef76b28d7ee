#pragma once

#include <cstdint>
#include <vector>

#include "media/probe.hpp"

namespace kinora::video {

// Writes an endlessly repeating animated WebP of RGB frames, each [height, width, 3] uint8. quality: 1 to 100.
// [owner-thread] Holds the encoded frames. MediaError if this FFmpeg lacks libwebp, or for a bad size.
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

}  // namespace kinora::video
