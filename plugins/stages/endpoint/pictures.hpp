// The tensor `frames` as JPEG pictures in data URLs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kinora/sample.hpp"

namespace kinora::endpoint {

// uint8 [T, H, W, 3], RGB, rows after each other; borrowed from a sample.
struct Frames {
  const uint8_t* data = nullptr;
  int64_t count = 0, height = 0, width = 0;
  const uint8_t* frame(size_t i) const { return data + static_cast<int64_t>(i) * height * width * 3; }
};

// Throws Error(KINORA_NOT_FOUND) if the sample has none, saying how to get them; KINORA_DATA if they are
// something else than such frames.
Frames frames_of(const Sample& sample, const char* stage);

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
std::string data_url(const Frames& frames, size_t i, int64_t max_side, int quality);

}  // namespace kinora::endpoint
