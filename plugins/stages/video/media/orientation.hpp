// How a stored picture becomes upright, in videos and in picture files.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "media/byte_source.hpp"

namespace kinora::video {

// Mirrored left to right, then turned clockwise. Covers the eight display matrices of MP4 and the eight
// values of Exif's tag 0x0112 (CIPA DC-008-2019, 4.6.4 A).
struct Orientation {
  Orientation(int degrees_ = 0, bool mirrored_ = false) : degrees(degrees_), mirrored(mirrored_) {}
  int degrees;    // 0, 90, 180 or 270
  bool mirrored;  // before the turn
  bool is_upright() const { return degrees == 0 && !mirrored; }
  bool swaps_sides() const { return degrees % 180 != 0; }
  friend bool operator==(const Orientation&, const Orientation&) = default;

  // Reads the orientation of a JPEG, PNG or WebP file from Exif, or from XMP where Exif has none. The result
  // is upright for a file that states none, one that states another value, and anything else.
  static Orientation of(std::span<const uint8_t> file);
  // Reads the file only if it begins as a picture of a size that the stages read.
  static Orientation of(ByteSource& file);
};

// rgb: stored pixels, uint8 [height, width, 3]. Returns the upright ones; [width, height, 3] if sides are swapped.
std::vector<uint8_t> upright(std::vector<uint8_t> rgb, int64_t height, int64_t width, Orientation stored);

}  // namespace kinora::video
