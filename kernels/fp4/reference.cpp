// The specification: formulas of scale.hpp in plain loops over blocks, roundings by comparison with
// neighbours.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/fp4/hadamard.hpp"
#include "kernels/fp4/quantize.hpp"

namespace kinora::fp4::reference {
namespace {

constexpr float kMagnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

uint8_t nearest(float x) {
  const float a = std::fabs(x);
  uint8_t code = 0;
  while (code < 7) {
    const float middle = (kMagnitudes[code] + kMagnitudes[code + 1]) / 2;
    if (a < middle || (a == middle && code % 2 == 0)) break;
    ++code;
  }
  return static_cast<uint8_t>(code | (std::signbit(x) ? 8 : 0));
}

// The distance from the code below, in steps of 2^-16 and rounded to nearest even, is the count of the 2^16
// noises that round up.
uint8_t stochastic(float x, uint32_t noise) {
  const double a = std::min(std::fabs(x), kLargestE2m1);
  uint8_t code = 0;
  while (code < 7 && kMagnitudes[code + 1] <= a) ++code;
  if (code < 7) {
    const double step = kMagnitudes[code + 1] - kMagnitudes[code];
    const double up = std::nearbyint((a - kMagnitudes[code]) / step * 65536);
    if (noise + up >= 65536) ++code;
  }
  return static_cast<uint8_t>(code | (std::signbit(x) ? 8 : 0));
}

float value_of(uint8_t code) { return code & 8 ? -kMagnitudes[code & 7] : kMagnitudes[code]; }

// Rows and columns of a matrix that one scale covers.
struct Area {
  int64_t row, rows, col, cols;
};

Area area_at(const Shape& n, bool square, int64_t row, int64_t block) {
  const int64_t col = block * kBlock, high = square ? kBlock : 1;
  return {row, std::min(high, n.rows - row), col, std::min(kBlock, n.cols - col)};
}

// A block's values, transformed; rows and columns that it lacks are zeros.
struct Block {
  float v[16][16] = {};
};

template <class T>
Block load(const Shape& n, const T* x, bool column_major, const Area& at, bool transformed) {
  Block block;
  for (int64_t r = 0; r < at.rows; ++r) {
    for (int64_t c = 0; c < at.cols; ++c) {
      const int64_t row = at.row + r, col = at.col + c;
      block.v[r][c] = to_float(x[column_major ? col * n.rows + row : row * n.cols + col]);
    }
    if (transformed && at.cols == kBlock) random_hadamard(block.v[r]);
  }
  return block;
}

float largest(const Block& block, const Area& at) {
  float most = 0;
  for (int64_t r = 0; r < at.rows; ++r)
    for (int64_t c = 0; c < at.cols; ++c) most = std::max(most, std::fabs(block.v[r][c]));
  return most;
}

float sum_by_halves(float (&e)[16]) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) e[i] = e[i] + e[i + half];
  return e[0];
}

// Adds up each row, then the rows.
float error_of(ScaleRule rule, const Block& block, const TensorScale& tensor, const BlockScale& scale) {
  float rows[16], most = 0;
  for (int r = 0; r < 16; ++r) {
    float e[16];
    for (int c = 0; c < 16; ++c) {
      const float x = block.v[r][c], q = value_of(nearest(x * scale.multiply));
      e[c] = std::fabs(q * scale.value - x * tensor.encode);
      if (rule == ScaleRule::mse) e[c] = e[c] * e[c];
      most = std::max(most, e[c]);
    }
    rows[r] = sum_by_halves(e);
  }
  return rule == ScaleRule::abs_max ? most : sum_by_halves(rows);
}

BlockScale choose_scale(ScaleRule rule, const Block& block, const TensorScale& tensor, float amax) {
  const BlockScale six = block_scale(rule, tensor, amax, 1);
  if (!is_adaptive(rule)) return six;
  const BlockScale four = block_scale(rule, tensor, amax, 1.5f);
  return error_of(rule, block, tensor, four) < error_of(rule, block, tensor, six) ? four : six;
}

void store(const Shape& n, const Options& options, const Block& block, const Area& at,
           const BlockScale& scale, uint8_t* codes, uint8_t* scales) {
  for (int64_t r = 0; r < at.rows; ++r) {
    const int64_t row = at.row + r;
    scales[scale_place(blocks_a_row(n), options.swizzled, row, at.col / kBlock)] =
        static_cast<uint8_t>(scale.code);
    Words noise = {};
    for (int64_t c = 0; c < at.cols; ++c) {
      if (options.stochastic && c % 8 == 0) noise = noise_of_eight(options.noise, row, (at.col + c) / 8);
      const float scaled = block.v[r][c] * scale.multiply;
      const uint8_t code =
          options.stochastic ? stochastic(scaled, noise_at(noise, static_cast<int>(c % 8))) : nearest(scaled);
      uint8_t& byte = codes[row * code_bytes_a_row(n) + (at.col + c) / 2];
      byte = static_cast<uint8_t>(c % 2 ? (byte & 15) | code << 4 : code);
    }
  }
}

}  // namespace

template <class T>
Amax find_amax(const Shape& n, const T* x, bool transformed, bool column_major) {
  Amax amax;
  for (int64_t row = 0; row < n.rows; ++row)
    for (int64_t block = 0; block < blocks_a_row(n); ++block) {
      const Area at = area_at(n, false, row, block);
      const Block before = load(n, x, column_major, at, false),
                  after = load(n, x, column_major, at, transformed);
      const auto bad = [&](const Block& of) {
        return static_cast<uint64_t>(
            std::count_if(of.v[0], of.v[0] + 16, [](float v) { return !std::isfinite(v); }));
      };
      amax.non_finite += bad(before) ? bad(before) : bad(after);
      for (const float v : after.v[0])
        if (std::isfinite(v)) amax.value = std::max(amax.value, std::fabs(v));
    }
  return amax;
}

template <class T>
float quantize(const Shape& n, const T* x, const Options& options, float amax, uint8_t* codes,
               uint8_t* scales) {
  const TensorScale tensor = tensor_scale(options.rule, amax);
  if (options.swizzled) std::memset(scales, 0, static_cast<size_t>(scale_bytes(n, true)));
  for (int64_t row = 0; row < n.rows; row += options.square ? kBlock : 1)
    for (int64_t block = 0; block < blocks_a_row(n); ++block) {
      const Area at = area_at(n, options.square, row, block);
      Block values = load(n, x, options.column_major, at, options.hadamard);
      for (auto& line : values.v)
        for (float& v : line) v = v * tensor.first;
      const BlockScale scale = choose_scale(options.rule, values, tensor, largest(values, at));
      store(n, options, values, at, scale, codes, scales);
    }
  return tensor.global;
}

template <class T>
void dequantize(const Shape& n, const uint8_t* codes, const uint8_t* scales, bool swizzled,
                float global_scale, T* x) {
  for (int64_t row = 0; row < n.rows; ++row)
    for (int64_t col = 0; col < n.cols; ++col) {
      const uint8_t byte = codes[row * code_bytes_a_row(n) + col / 2];
      const uint8_t code = col % 2 ? byte >> 4 : byte & 15;
      const uint8_t scale = scales[scale_place(blocks_a_row(n), swizzled, row, col / kBlock)];
      assign(x[row * n.cols + col], value_of(code) * decode_multiply(scale, global_scale));
    }
}

template Amax find_amax(const Shape&, const float*, bool, bool);
template Amax find_amax(const Shape&, const Bfloat16*, bool, bool);
template float quantize(const Shape&, const float*, const Options&, float, uint8_t*, uint8_t*);
template float quantize(const Shape&, const Bfloat16*, const Options&, float, uint8_t*, uint8_t*);
template void dequantize(const Shape&, const uint8_t*, const uint8_t*, bool, float, float*);
template void dequantize(const Shape&, const uint8_t*, const uint8_t*, bool, float, Bfloat16*);

}  // namespace kinora::fp4::reference
