// Random numbers as pure functions of (seed, name of the stream, counter): equal on every rank, with every
// layout, in a block that runs again, and after a resume. Nothing here has state.
//
// Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "kinora/abi/base.h"

KINORA_SDK_BEGIN

namespace kinora {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// 128 random bits for a counter and a key.
constexpr PhiloxCounter philox(PhiloxCounter c, PhiloxKey k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(a)};
    k[0] += 0x9E3779B9;  // golden ratio
    k[1] += 0xBB67AE85;  // sqrt(3) - 1
  }
  return c;
}

// An independent stream for each pair (seed, name).
class Random {
 public:
  constexpr Random(uint64_t seed, std::string_view name) {
    const uint64_t mixed = mix(seed + mix(fnv1a(name)));
    key_ = {static_cast<uint32_t>(mixed), static_cast<uint32_t>(mixed >> 32)};
  }
  constexpr PhiloxCounter bits(uint64_t low, uint64_t high = 0) const {
    return philox({static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                   static_cast<uint32_t>(high >> 32)},
                  key_);
  }
  // The generator's key, for another consumer of the stream (kernels/fp4/philox.hpp).
  constexpr uint64_t key() const { return uint64_t{key_[1]} << 32 | key_[0]; }
  // Two numbers in the open interval (0, 1), in steps of 2^-52.
  constexpr std::array<double, 2> uniform(uint64_t low, uint64_t high = 0) const {
    const auto b = bits(low, high);
    return {open(b[0], b[1]), open(b[2], b[3])};
  }
  // Two independent standard normal numbers (Box and Muller 1958).
  std::array<double, 2> normal(uint64_t low, uint64_t high = 0) const {
    const auto u = uniform(low, high);
    const double radius = std::sqrt(-2 * std::log(u[0])), angle = 6.283185307179586476925 * u[1];
    return {radius * std::cos(angle), radius * std::sin(angle)};
  }

 private:
  static constexpr uint64_t fnv1a(std::string_view text) {
    uint64_t h = 0xCBF29CE484222325;
    for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001B3;
    return h;
  }
  // The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
  static constexpr uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // 52 bits and a half: neither 0 nor 1 after rounding.
  static constexpr double open(uint32_t low, uint32_t high) {
    const uint64_t bits = (uint64_t{high} << 20) | (low >> 12);
    return (static_cast<double>(bits) + 0.5) * 0x1p-52;
  }
  PhiloxKey key_{};
};

}  // namespace kinora

KINORA_SDK_END
