// Signatures of clips whose motion is known.
#pragma once
#include <cmath>
#include <random>
#include <string>

#include "aligned.hpp"

namespace kinora::dedup {

// Three spots of light that wander over 8 x 8 cells, each along a path of its own that the seed decides.
class Spots {
 public:
  explicit Spots(unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> pace(0.6, 3), phase(0, 6.28);
    for (auto& spot : spots_)
      for (auto& axis : spot) axis = {pace(random), phase(random)};
  }

  // Brightness of a cell at a time in seconds, about 0 to 100.
  double operator()(int x, int y, double time) const {
    double out = 0;
    for (const auto& [across, down] : spots_) {
      const double dx = x - 3.5 - 3 * std::sin(across.pace * time + across.phase),
                   dy = y - 3.5 - 3 * std::sin(down.pace * time + down.phase);
      out += 60 * std::exp(-(dx * dx + dy * dy) / 4);
    }
    return std::min(out, 100.0);
  }

 private:
  struct Path {
    double pace, phase;
  };
  Path spots_[3][2];  // across, down
};

struct Shown {
  size_t frames = 32;
  double speed = 1, start = 0;  // start: seconds of the scene
  double gain = 1, base = 40;   // of brightness
  double logo = 0;              // brightness that the cells of a corner have instead
  size_t fade = 0;              // frames in which all but the logo fades in, and out
};

// The field `signature` of a clip that shows the spots.
inline std::string signature_bytes(unsigned seed, const Shown& how = {}) {
  const Spots spots(seed);
  std::string out;
  for (size_t i = 0; i < how.frames; ++i)
    for (int y = 0; y < 8; ++y)
      for (int x = 0; x < 8; ++x) {
        const double strength =
            how.fade > 0 ? std::min(1.0, static_cast<double>(std::min(i, how.frames - 1 - i)) / how.fade) : 1;
        const double time = how.start + how.speed * static_cast<double>(i) / kSignatureRate,
                     light = how.logo > 0 && x > 5 && y < 2
                                 ? how.logo
                                 : strength * (how.base + how.gain * spots(x, y, time));
        out += static_cast<char>(static_cast<uint8_t>(std::lround(std::min(light, 255.0))));
      }
  return out;
}

}  // namespace kinora::dedup
