// Encodes the tensor `frames` as JPEG pictures in data URLs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kinora/curation.hpp"

namespace kinora::endpoint {

// Returns the sample's frames and checks that JPEG supports their sides. Throws like pictures_of().
Pictures frames_of(const Sample& sample);

struct Size {
  int64_t height = 0, width = 0;
};
// Returns the largest size of the same aspect whose longer side is at most max_side; never larger than
// `size`.
Size fitted(Size size, int64_t max_side);
// Returns [to.height, to.width, 3], each pixel the mean of the area that it covers; `to` is not larger than
// `from`.
std::vector<uint8_t> shrunk(const uint8_t* rgb, Size from, Size to);

// Encodes a JPEG with quality 1 to 100. Throws Error.
std::string jpeg(const uint8_t* rgb, Size size, int quality);
std::string base64(const std::string& bytes);
// Returns one frame as "data:image/jpeg;base64,...".
std::string data_url(const Pictures& frames, size_t i, int64_t max_side, int quality);

}  // namespace kinora::endpoint
