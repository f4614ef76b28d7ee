// Random numbers that are a function of a seed alone, the same with every standard library.
#pragma once
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace kinora::engines::simulated {

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
inline uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
// FNV-1a.
inline uint64_t seed_of(std::string_view key, uint64_t seed) {
  uint64_t out = 0xcbf29ce484222325 ^ mixed(seed);
  for (const char c : key) out = (out ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return out;
}
// Between 0 and 1, neither of them.
inline double uniform(uint64_t seed) { return (static_cast<double>(mixed(seed) >> 11) + 0.5) * 0x1p-53; }

// Log-normal, by Box and Muller's normal number.
inline double log_normal(double mean, double deviation, uint64_t seed) {
  if (!(mean > 0) || !(deviation > 0)) return mean;
  const double share = deviation / mean, variance = std::log1p(share * share);
  const double normal =
      std::sqrt(-2 * std::log(uniform(seed))) * std::cos(2 * std::numbers::pi * uniform(mixed(seed)));
  return mean * std::exp(std::sqrt(variance) * normal - variance / 2);
}

}  // namespace kinora::engines::simulated
