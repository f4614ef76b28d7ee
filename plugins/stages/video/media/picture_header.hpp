// The headers of picture files, checked before a decoder sees the file.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "media/probe.hpp"

namespace kinora::video {

struct PictureHeader {
  const char* field = "";         // of a sample: "jpg", "png" or "webp"
  int64_t width = 0, height = 0;  // pixels as stored, see orientation.hpp
};

// Whether the first 12 bytes of a file are those of a JPEG (ITU-T T.81), PNG (W3C, third edition) or WebP
// file (RFC 9649).
bool begins_as_picture(std::span<const uint8_t> start);

// Reads the headers of such a file. MediaError if it ends early, for a picture larger than the limits, an
// animation, and a PNG whose compressed texts and profile FFmpeg would inflate to more than about 256 MiB.
PictureHeader picture_header(std::span<const uint8_t> file, const std::string& name,
                             const Limits& limits = {});

}  // namespace kinora::video
