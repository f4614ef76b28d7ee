// For tests: a moving preview.
#pragma once
#include <string>
#include <string_view>

namespace kinora::test {

inline std::string bytes_of_hex(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return out;
}

// 16 x 8 pixels: a red frame, then a blue one.
inline std::string tiny_preview() {
  return bytes_of_hex(
      "52494646b400000057454250565038580a000000020000000f0000070000414e494d06000000ffffffff0000414e4d46400000"
      "00"
      "0000000000000f0000070000e803000256503820280000009001009d012a1000080007409625a00274ba00039800fee50af827"
      "a9"
      "728ffe378f02bc9763a00000414e4d46400000000000000000000f0000070000e803000056503820280000007401009d012a10"
      "00"
      "080000009625a0027401400000feedcedffe378ff25dfdbbede44619d6000000");
}

}  // namespace kinora::test
