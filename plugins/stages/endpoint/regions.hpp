// Regions of text in a picture.
#pragma once
#include <string>
#include <vector>

#include "client.hpp"

namespace kinora::endpoint {

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;  // in fractions of the picture
};

// Returns the share of the picture covered by the union of the boxes, 0 to 1; parts outside do not count.
double covered(std::vector<Box> boxes);

struct TextRegions {
  double share = 0;  // covered share of the picture
  std::vector<std::string> texts;
};

// Parses {"regions": [{"text": str, "box": [left, top, right, bottom]}]} with coordinates from 0 to `scale`. Throws
// Error(KINORA_DATA), also for an implausible number of regions.
TextRegions text_regions(const Json& json, double scale);

}  // namespace kinora::endpoint
