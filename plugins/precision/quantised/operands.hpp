// Operands of products in a format: their largest magnitudes, and their codes or their rounded values. A
// tensor of activations or gradients is [B, S, C]: each sample has scales of its own.
//
// All tensors are float32, row-major and on the CPU; work is spread over libtorch's threads.
#pragma once
#include <memory>
#include <vector>

#include "kinora/tensor.hpp"
#include "plugins/precision/quantised/format.hpp"
#include "plugins/precision/quantised/tokens.hpp"

namespace kinora::quantised {

// Channels [first, first + count) of a rank are the channels from `global` on of one process.
struct Channels {
  int64_t first, count, global;
};

// Where the noise of a tensor comes from: a function of the sample, the token and the channel.
struct NoiseSource {
  uint64_t key = 0;              // of the seed, the step and the layer
  std::vector<int64_t> samples;  // the global number of each row of the batch
};
// Row numbers in the noise: the sample of row `sample` in the upper half, what it contains in the lower.
inline int64_t noise_row(const NoiseSource& noise, int64_t sample, int64_t place) {
  const auto number = static_cast<uint64_t>(noise.samples.at(static_cast<size_t>(sample)));
  return static_cast<int64_t>((number & 0x7fffffff) << 32) + place;
}

// Codes and scales of `count` matrices of one shape.
struct Packed {
  Use use;
  Shape shape{};
  int64_t count = 0;
  Tensor codes, scales;       // uint8
  std::vector<float> global;  // of each; NaN: a value was not finite
};

// The numbers [count, rows, cols]; NaN throughout a matrix that had a value that is not finite.
Tensor decoded(const Format&, const Packed&);

// A matrix [rows, cols] or [count, rows, cols] with its own largest magnitudes, without noise: weights.
std::vector<float> amax_of(const Format&, const Use&, const Tensor& x);
Packed packed(const Format&, const Use&, const Tensor& x, const std::vector<float>& amax);

// By rows, blocks along the channels. Padding becomes zeros. sums: null, or added to.
std::vector<float> amax_of_rows(const Format&, const Use&, const Tensor& x_BSC, const Tokens&);
Tensor rounded_rows(const Format&, const Use&, const Tensor& x_BSC, const Tokens&,
                    const std::vector<Channels>&, const std::vector<float>& amax, const NoiseSource&,
                    Sums* sums);

// Transposed, blocks along the tokens: a tensor [B, C, T] for each stretch of tokens, padded with zeros to
// whole tiles.
std::vector<Tensor> columns_of(const Tensor& x_BSC, const Tokens&, int64_t tile);
std::vector<float> amax_of_columns(const Format&, const Use&, const std::vector<Tensor>&, int64_t samples);
std::vector<Packed> packed_columns(const Format&, const Use&, const std::vector<Tensor>&, const Tokens&,
                                   const std::vector<Channels>&, const std::vector<float>& amax,
                                   const NoiseSource&);

}  // namespace kinora::quantised
