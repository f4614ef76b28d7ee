// Pictures of shots that move, for tests of flashes: 48 x 27 RGB.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "shots/transnetv2.hpp"

namespace kinora::video {

using TestPicture = std::vector<uint8_t>;

// Value v of the shot becomes gain v + base, within 0 and 255.
struct Light {
  double gain = 1, base = 0;
};

// Frame `time` of a shot: a pattern that moves right by 0.8 pixels a frame; another shot has another pattern.
inline TestPicture shot_picture(int shot, int time, Light light = {}) {
  TestPicture out;
  for (int y = 0; y < transnetv2::kHeight; ++y)
    for (int x = 0; x < transnetv2::kWidth; ++x)
      for (int channel = 0; channel < 3; ++channel) {
        const double across = x - 0.8 * time,
                     wave = std::sin(0.5 * across + 2 * shot) +
                            std::sin(0.3 * (shot % 2 ? y + across : y - across) + shot + channel);
        out.push_back(static_cast<uint8_t>(
            std::lround(std::clamp(light.gain * (80 + 35 * wave) + light.base, 0.0, 255.0))));
      }
  return out;
}

inline constexpr Light kLit{1.5, 120}, kWhite{0, 255}, kUnlit{0.3, 0};

}  // namespace kinora::video
