// The bins in which Cosmos-Curate shards its clips (core/utils/dataset/dimensions.py,
// ResolutionAspectRatioFramesBinsSpec).
#pragma once
#include <algorithm>
#include <optional>
#include <string>

#include "kinora/abi/base.h"

KINORA_SDK_BEGIN

namespace kinora {

struct Bin {
  std::string resolution;               // of the shorter side: "lt_720", "720", "1080"
  std::optional<std::string> aspect;    // "9_16", "3_4", "1_1", "4_3", "16_9"; none above 10
  std::optional<std::string> duration;  // "5_10", "10_30", "30_inf"; none below 5 s
  // Cosmos leaves out clips without a bin.
  bool complete() const { return aspect && duration; }
};

// width, height: pixels of the upright picture, at least 1. Aspect is width / height between the edges 0,
// 0.65, 0.88, 1.16, 1.55 and 10 (lower exclusive, upper inclusive), duration between 5, 10 and 30 s (both
// inclusive; the shorter bin where two fit).
inline Bin bin_of(double width, double height, double seconds) {
  struct Aspect {
    double above, most;
    const char* name;
  };
  constexpr Aspect kAspects[] = {
      {0, 0.65, "9_16"}, {0.65, 0.88, "3_4"}, {0.88, 1.16, "1_1"}, {1.16, 1.55, "4_3"}, {1.55, 10, "16_9"}};
  const double side = std::min(width, height), ratio = width / height;
  Bin bin;
  bin.resolution = side >= 1080 ? "1080" : side >= 720 ? "720" : "lt_720";
  for (const Aspect& a : kAspects)
    if (a.above < ratio && ratio <= a.most) bin.aspect = a.name;
  if (seconds >= 5) bin.duration = seconds <= 10 ? "5_10" : seconds <= 30 ? "10_30" : "30_inf";
  return bin;
}

}  // namespace kinora

KINORA_SDK_END
