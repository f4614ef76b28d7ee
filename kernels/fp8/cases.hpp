// Matrices and options for the tests of FP8's kernels, on the processor and on the device.
#pragma once
#include <string>
#include <vector>

#include "kernels/fp4/cases.hpp"
#include "kernels/fp8/quantize.hpp"

namespace kinora::fp8 {

using fp4::as;
using fp4::Content;
using fp4::matrix;
using fp4::same_bits;

struct Quantized {
  std::vector<uint8_t> codes, scales;
  uint64_t non_finite = 0;
};

inline Quantized room_for(const Shape& n, const Options& o) {
  return {std::vector<uint8_t>(static_cast<size_t>(n.rows * n.cols), 0xcd),
          std::vector<uint8_t>(static_cast<size_t>(scale_bytes(n, o.scaling, o.swizzled)), 0xcd), 0};
}

inline bool same_bits(const Quantized& a, const Quantized& b) {
  return a.non_finite == b.non_finite && same_bits(a.codes, b.codes) && same_bits(a.scales, b.scales);
}

inline const Shape kShapes[] = {{1, 1}, {3, 7}, {17, 40}, {5, 129}, {130, 136}, {129, 300}, {9, 1000}};

inline std::vector<Options> all_options() {
  std::vector<Options> all;
  for (int bits = 0; bits < 8; ++bits)
    for (int scaling = 0; scaling < 4; ++scaling)
      for (int rule = 0; rule < 3; ++rule) {
        Options o;
        o.format = bits & 1 ? Format::e5m2 : Format::e4m3;
        o.scaling = static_cast<Scaling>(scaling);
        o.rule = static_cast<ScaleRule>(rule);
        o.swizzled = bits & 2;
        o.column_major = bits & 4;
        if (o.swizzled && o.scaling != Scaling::mx) continue;
        all.push_back(o);
      }
  return all;
}

inline std::string name_of(const Options& o) {
  static constexpr const char *kScalings[] = {"tensor", "1x128", "128x128", "mx"},
                              *kRules[] = {"exact", "up", "floor"};
  return std::string(o.format == Format::e4m3 ? "e4m3 " : "e5m2 ") + kScalings[static_cast<int>(o.scaling)] +
         " " + kRules[static_cast<int>(o.rule)] + (o.swizzled ? " swizzled" : "") +
         (o.column_major ? " column-major" : "");
}

// Values that test every rounding: each number of the format, the middle of two and the values next to both,
// in random order and of both signs.
template <Format kFormat>
std::vector<float> roundings(const Shape& n, unsigned seed) {
  std::vector<float> all;
  for (uint32_t code = 0; code + 1 < Numbers<kFormat>::kFirstSpecial; ++code) {
    const float value = value_of<kFormat>(code), middle = (value + value_of<kFormat>(code + 1)) / 2;
    for (const float v : {value, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)})
      all.push_back(v);
  }
  std::mt19937 random(seed);
  std::vector<float> x(static_cast<size_t>(n.rows * n.cols));
  for (float& v : x) v = all[random() % all.size()] * (random() % 2 ? 1.0f : -1.0f);
  x[0] = Numbers<kFormat>::kLargest;
  return x;
}

// f(shape, matrix, options, description) for every combination of them; the matrix is of T.
template <class T, class F>
void for_cases(F f) {
  for (const Shape& n : kShapes)
    for (const Options& o : all_options()) {
      const auto try_matrix = [&](const std::vector<float>& x, const std::string& content) {
        f(n, as<T>(x), o,
          name_of(o) + " [" + std::to_string(n.rows) + ", " + std::to_string(n.cols) + "] " + content);
      };
      const auto seed = static_cast<unsigned>(n.cols);
      try_matrix(
          o.format == Format::e4m3 ? roundings<Format::e4m3>(n, seed) : roundings<Format::e5m2>(n, seed),
          "of roundings");
      for (const Content content : fp4::kContents)
        if (n.rows * n.cols < 5000 || content == Content::gaussian)
          try_matrix(matrix(n, content, seed), "content " + std::to_string(static_cast<int>(content)));
    }
}

}  // namespace kinora::fp8
