#include "clips/bins.hpp"

#include <algorithm>

namespace kinora::video {

Bin bin_of(int width, int height, double seconds) {
  struct Aspect {
    double above, most;
    const char* name;
  };
  constexpr Aspect kAspects[] = {
      {0, 0.65, "9_16"}, {0.65, 0.88, "3_4"}, {0.88, 1.16, "1_1"}, {1.16, 1.55, "4_3"}, {1.55, 10, "16_9"}};
  const int side = std::min(width, height);
  Bin bin;
  bin.resolution = side >= 1080 ? "1080" : side >= 720 ? "720" : "lt_720";
  const double ratio = static_cast<double>(width) / height;
  for (const Aspect& a : kAspects)
    if (a.above < ratio && ratio <= a.most) bin.aspect = a.name;
  if (seconds >= 5) bin.duration = seconds <= 10 ? "5_10" : seconds <= 30 ? "10_30" : "30_inf";
  return bin;
}

}  // namespace kinora::video
