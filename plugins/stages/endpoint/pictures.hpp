// The tensor `frames` as JPEG pictures in data URLs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kinora/curation.hpp"

namespace kinora::endpoint {

// The sample's, of sides that JPEG can have. Throws as pictures_of().
Pictures frames_of(const Sample& sample);

struct Size {
  int64_t height = 0, width = 0;
};
// The size whose longer side is at most max_side, of the same aspect.
Size fitted(Size size, int64_t max_side);
// [to.height, to.width, 3], each pixel the mean of the area that it covers; `to` is not larger.
std::vector<uint8_t> shrunk(const uint8_t* rgb, Size from, Size to);

// Quality 1 to 100. Throws Error.
std::string jpeg(const uint8_t* rgb, Size size, int quality);
std::string base64(const std::string& bytes);
// One frame as "data:image/jpeg;base64,...".
std::string data_url(const Pictures& frames, size_t i, int64_t max_side, int quality);

}  // namespace kinora::endpoint
