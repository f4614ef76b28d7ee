// The orientation of picture files: Exif's tag 0x0112 (CIPA DC-008-2019, 4.6.4 A) in JPEG, PNG and WebP.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "media/byte_source.hpp"

namespace kinora::video {

// The eight ways in which a picture may be stored; the value of the tag names the sides of the upright picture
// at which the stored first row and first column are: 1 top, left; 2 top, right; 3 bottom, right; 4 bottom,
// left; 5 left, top; 6 right, top; 7 right, bottom; 8 left, bottom.
class Orientation {
 public:
  constexpr Orientation() = default;
  // 1 for a file without the tag, one whose tag has another value, and anything but a JPEG, PNG or WebP file.
  static Orientation of(std::span<const uint8_t> file);
  // Reads the file only if it begins as a picture of a size that the stages read.
  static Orientation of(ByteSource& file);

  bool is_upright() const { return tag_ == 1; }
  bool swaps_sides() const { return tag_ >= 5; }
  // rgb: stored pixels, uint8 [height, width, 3]. Returns the upright ones; [width, height, 3] if sides are
  // swapped.
  std::vector<uint8_t> upright(std::vector<uint8_t> rgb, int64_t height, int64_t width) const;

 private:
  explicit constexpr Orientation(int tag) : tag_(tag) {}
  int tag_ = 1;
};

}  // namespace kinora::video
