#include "kernels/cpu/content_score.hpp"

#include <cmath>

namespace kinora {

double content_score(const HsvDifference& difference, const ContentWeights& weights) {
  if (difference.pixels == 0) return 0.0;
  const double pixels = static_cast<double>(difference.pixels);
  const double sum = static_cast<double>(difference.hue) / pixels * weights.hue +
                     static_cast<double>(difference.saturation) / pixels * weights.saturation +
                     static_cast<double>(difference.value) / pixels * weights.value +
                     static_cast<double>(difference.edges) / pixels * weights.edges;
  return sum / (std::abs(weights.hue) + std::abs(weights.saturation) + std::abs(weights.value) +
                std::abs(weights.edges));
}

}  // namespace kinora
