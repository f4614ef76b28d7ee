#pragma once

#include <optional>
#include <string>

namespace kinora::video {

// The bins in which Cosmos-Curate shards its clips (core/utils/dataset/dimensions.py,
// ResolutionAspectRatioFramesBinsSpec): resolution by the shorter side, aspect by width / height between the
// edges 0, 0.65, 0.88, 1.16, 1.55 and 10 (lower exclusive, upper inclusive), duration between 5, 10 and 30 s
// (both inclusive; the shorter bin if two fit).
struct Bin {
  std::string resolution;               // "lt_720", "720", "1080"
  std::optional<std::string> aspect;    // "9_16", "3_4", "1_1", "4_3", "16_9"
  std::optional<std::string> duration;  // "5_10", "10_30", "30_inf"
  // Cosmos leaves out clips without a complete bin.
  bool complete() const { return aspect && duration; }
};

// width, height: pixels of the upright picture, at least 1.
Bin bin_of(int width, int height, double seconds);

}  // namespace kinora::video
