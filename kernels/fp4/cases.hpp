// Matrices, options and comparisons for the tests of NVFP4's kernels, on the processor and on the device.
#pragma once
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/fp4/quantize.hpp"

namespace kinora::fp4 {

struct Quantized {
  std::vector<uint8_t> codes, scales;
  float global = 0;
};

inline Quantized room_for(const Shape& n, bool swizzled) {
  return {std::vector<uint8_t>(static_cast<size_t>(code_bytes(n)), 0xcd),
          std::vector<uint8_t>(static_cast<size_t>(scale_bytes(n, swizzled)), 0xcd), 0};
}

inline const Shape kShapes[] = {{1, 1},   {3, 7},    {16, 16},   {17, 40},
                                {5, 129}, {18, 272}, {130, 136}, {9, 1000}};

enum class Content { gaussian, ties, powers, zeros, tiny, huge, subnormal };
inline const Content kContents[] = {Content::gaussian, Content::ties, Content::powers,   Content::zeros,
                                    Content::tiny,     Content::huge, Content::subnormal};

// ties: with an amax of 6 * 448 every value is halfway between two codes, or on one. powers: 1e-38 to 1e38
// and zeros of both signs.
inline std::vector<float> matrix(const Shape& n, Content content, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> sixteenth(-24, 24), power(-38, 38), kind(0, 9);
  std::vector<float> x(static_cast<size_t>(n.rows * n.cols));
  for (float& v : x) switch (content) {
      case Content::gaussian:
        v = normal(random);
        break;
      case Content::ties:
        v = static_cast<float>(sixteenth(random)) * 112;
        break;
      case Content::powers:
        v = kind(random) == 0
                ? (random() % 2 ? 0.0f : -0.0f)
                : std::pow(10.0f, static_cast<float>(power(random))) * (random() % 2 ? 1.0f : -1.0f);
        break;
      case Content::zeros:
        v = random() % 2 ? 0.0f : -0.0f;
        break;
      case Content::tiny:
        v = normal(random) * 1e-38f;
        break;
      case Content::huge:
        v = std::fmod(normal(random), 3.0f) * 0x1p126f;
        break;
      case Content::subnormal:
        v = normal(random) * 1e-43f;
        break;
    }
  if (content == Content::ties) x[0] = 6 * 448;
  return x;
}

inline std::vector<Bfloat16> narrowed(const std::vector<float>& x) {
  std::vector<Bfloat16> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) assign(out[i], x[i]);
  return out;
}
template <class T>
std::vector<T> as(const std::vector<float>& x) {
  if constexpr (std::is_same_v<T, float>)
    return x;
  else
    return narrowed(x);
}

inline std::vector<Options> all_options() {
  std::vector<Options> all;
  for (int bits = 0; bits < 32; ++bits)
    for (int rule = 0; rule < 6; ++rule) {
      Options o;
      o.rule = static_cast<ScaleRule>(rule);
      if (bits & 8 && is_adaptive(o.rule)) continue;  // the order of scales is independent of their rule
      o.square = bits & 1;
      o.hadamard = bits & 2;
      o.stochastic = bits & 4;
      o.swizzled = bits & 8;
      o.column_major = bits & 16;
      o.noise = {0x123456789abcdefull, 7, (int64_t{1} << 33) + 5, 48};
      all.push_back(o);
    }
  return all;
}

inline std::string name_of(const Options& o) {
  static constexpr const char* kRules[] = {"none", "mse", "mae", "abs_max", "static_6", "static_4"};
  return std::string(kRules[static_cast<int>(o.rule)]) + (o.square ? " 16x16" : " 1x16") +
         (o.hadamard ? " hadamard" : "") + (o.stochastic ? " stochastic" : " nearest") +
         (o.swizzled ? " swizzled" : "") + (o.column_major ? " column-major" : "");
}

// f(shape, matrix, options, description) for every combination; matrix: of T, finite after the transform too.
template <class T, class F>
void for_cases(F f) {
  for (const Shape& n : kShapes)
    for (const Content content : kContents) {
      if (n.rows > 100 && content != Content::gaussian) continue;
      const auto x = as<T>(matrix(n, content, static_cast<unsigned>(n.cols)));
      for (const Options& o : all_options()) {
        if (o.hadamard && content == Content::huge) continue;
        f(n, x, o,
          name_of(o) + " [" + std::to_string(n.rows) + ", " + std::to_string(n.cols) + "] content " +
              std::to_string(static_cast<int>(content)));
      }
    }
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}
inline bool same_bits(const Quantized& a, const Quantized& b) {
  return bits_of(a.global) == bits_of(b.global) && same_bits(a.codes, b.codes) &&
         same_bits(a.scales, b.scales);
}

}  // namespace kinora::fp4
