#include "regions.hpp"

#include <algorithm>
#include <array>

#include "error_text.hpp"

namespace kinora::endpoint {
namespace {

constexpr size_t kMostRegions = 1024;  // computing the area takes quadratic time

// Length of the union of vertical extents of the boxes that span [left, right]. Boxes are sorted by top.
double height_between(const std::vector<Box>& boxes, double left, double right) {
  double sum = 0, reached = 0;
  for (const Box& b : boxes) {
    if (b.left > left || b.right < right) continue;
    sum += std::max(0.0, b.bottom - std::max(b.top, reached));
    reached = std::max(reached, b.bottom);
  }
  return sum;
}

}  // namespace

double covered(std::vector<Box> boxes) {
  std::vector<double> edges;
  for (Box& b : boxes) {
    b = {std::clamp(std::min(b.left, b.right), 0.0, 1.0), std::clamp(std::min(b.top, b.bottom), 0.0, 1.0),
         std::clamp(std::max(b.left, b.right), 0.0, 1.0), std::clamp(std::max(b.top, b.bottom), 0.0, 1.0)};
    edges.push_back(b.left);
    edges.push_back(b.right);
  }
  std::sort(edges.begin(), edges.end());
  std::sort(boxes.begin(), boxes.end(), [](const Box& a, const Box& b) { return a.top < b.top; });
  double sum = 0;
  for (size_t i = 0; i + 1 < edges.size(); ++i)
    if (edges[i + 1] > edges[i])
      sum += (edges[i + 1] - edges[i]) * height_between(boxes, edges[i], edges[i + 1]);
  return sum;
}

TextRegions text_regions(const Json& json, double scale) {
  const auto wrong = [&] {
    return Error(KINORA_DATA, "the answer must be a list of regions, each with a text and a box of four numbers: " +
                                  shown(dump(json), ""));
  };
  if (!json.contains("regions") || !json["regions"].is_array() || json["regions"].size() > kMostRegions)
    throw wrong();
  TextRegions out;
  std::vector<Box> boxes;
  for (const auto& region : json["regions"]) {
    if (!region.is_object() || !region.contains("box") || !region["box"].is_array() ||
        region["box"].size() != 4)
      throw wrong();
    std::array<double, 4> edges{};
    for (size_t i = 0; i < edges.size(); ++i) {
      if (!region["box"][i].is_number()) throw wrong();
      edges[i] = region["box"][i].get<double>() / scale;
    }
    boxes.push_back({edges[0], edges[1], edges[2], edges[3]});
    if (region.contains("text") && region["text"].is_string())
      out.texts.push_back(region["text"].get<std::string>());
  }
  out.share = covered(std::move(boxes));
  return out;
}

}  // namespace kinora::endpoint
