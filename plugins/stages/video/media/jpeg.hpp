// JPEG pictures, decoded to RGB by libjpeg-turbo in a sixth of the time of FFmpeg and swscale.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "media/byte_source.hpp"
#include "media/probe.hpp"
#include "media/scaler.hpp"

namespace kinora::video {

// A JPEG file of one picture: grey, YCbCr or RGB in 8 bits, with square pixels.
//
// Its pixels are those of libjpeg-turbo's defaults, exact integer DCT and smooth upsampling of chroma, as PIL
// and OpenCV give them. They are as they are stored: Orientation (orientation.hpp) makes them upright.
//
// [owner-thread]
class JpegPicture {
 public:
  // Reads the headers. Nothing for any other file, for CMYK, for several pictures in one file, and beyond the
  // limits: Decoder decodes these or says what is wrong. MediaError for more scans than an encoder writes,
  // because decoding them would take hours.
  static std::optional<JpegPicture> open(ByteSource& source, const std::string& name,
                                         const Limits& limits = {});

  int width() const { return width_; }
  int height() const { return height_; }

  // Decodes to [height, width, 3] uint8 RGB, whose rows are `stride` bytes apart. False if libjpeg-turbo cannot, as for
  // 12 bits; `rgb` is then undefined.
  bool decode(uint8_t* rgb, int stride);
  // The same, scaled to [size.height, size.width, 3] without padding.
  bool decode(uint8_t* rgb, const ScalerOptions& size);
  // After decode(): what is wrong with a picture of which parts may be missing; empty if nothing is.
  const std::string& damaged() const { return damaged_; }

 private:
  std::string name_, damaged_;
  std::vector<uint8_t> file_;
  int width_ = 0, height_ = 0;
};

}  // namespace kinora::video
