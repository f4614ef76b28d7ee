// Regions of text in a picture.
#pragma once
#include <string>
#include <vector>

#include "client.hpp"

namespace kinora::endpoint {

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;  // in fractions of the picture
};

// The share of the picture that the boxes cover together, 0 to 1; what lies over another counts once, what
// lies outside not at all.
double covered(std::vector<Box> boxes);

struct TextRegions {
  double share = 0;  // of the picture
  std::vector<std::string> texts;
};

// {"regions": [{"text": str, "box": [left, top, right, bottom]}]} with coordinates from 0 to `scale`. Throws
// Error(KINORA_DATA), also for more regions than any picture has.
TextRegions text_regions(const Json& json, double scale);

}  // namespace kinora::endpoint
