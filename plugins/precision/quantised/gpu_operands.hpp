// operands.hpp on a GPU, by libkinora_cuda: the same codes and scales, and products of them. Nothing waits
// for the GPU: largest magnitudes and scales stay there.
//
// A product has the codes' values without the scale of the whole matrix, which multiplies the result: an E2M1
// number times an E4M3 scale has 6 significant bits at most, an FP8 number 4, so that bfloat16 holds them
// exactly. FP8's scales of 1x128 and 128x128 values are powers of two by the rules "up" and "floor" alone; by
// "exact" the operands are float32.
#pragma once
#include <vector>

#include <ATen/core/Tensor.h>

#include "kinora/abi/cuda.h"
#include "plugins/precision/quantised/operands.hpp"

namespace kinora::quantised {

// `count` matrices [rows, cols] of one shape.
struct GpuPacked {
  kinora_cuda_low how{};  // how codes and scales are stored
  Shape shape{};
  int64_t count = 0;
  at::Tensor codes, scales;  // uint8 [count, ...]
  at::Tensor global;  // float32 [count, 1]: NVFP4's global scale, FP8's scale of the whole matrix; else 1
  at::Tensor factor;  // float64 [count]: multiplies what codes and scales give; NaN: a value was not finite
  bool defined() const { return codes.defined(); }
};

// One of the matrices of [count, ...], as rows.
inline at::Tensor matrix_of(const at::Tensor& all, int64_t i, int64_t rows) {
  const at::Tensor one = all.select(0, i);
  return one.view({rows, rows ? one.numel() / rows : 0});
}

class GpuOperands {
 public:
  GpuOperands(const kinora_cuda_api& cuda, const Format& format) : cuda_(cuda), format_(format) {}

  // Largest magnitudes: float32 [n, 4], infinite where a value is not finite; 0 in all but the first column.
  at::Tensor amax_of(const Use&, const at::Tensor& w) const;  // [1, 4]
  at::Tensor amax_of_rows(const Use&, const at::Tensor& x_BSC, const Tokens&) const;
  // like: a tensor on the GPU.
  at::Tensor amax_of_columns(const Use&, const std::vector<at::Tensor>&, int64_t samples,
                             const at::Tensor& like) const;

  // w [N, K], or its transpose.
  GpuPacked packed(const Use&, const at::Tensor& w, const at::Tensor& amax, bool transposed) const;
  GpuPacked packed_rows(const Use&, const at::Tensor& x_BSC, const Tokens&, const std::vector<Channels>&,
                        const at::Tensor& amax, const NoiseSource&) const;
  // A tensor [B, T, C] for each stretch of tokens, padded with zeros to whole tiles; parts of x where they
  // can be.
  std::vector<at::Tensor> columns_of(const at::Tensor& x_BSC, const Tokens&) const;
  // Matrices [C, T].
  std::vector<GpuPacked> packed_columns(const Use&, const std::vector<at::Tensor>&, const Tokens&,
                                        const std::vector<Channels>&, const at::Tensor& amax,
                                        const NoiseSource&) const;

  // a [count, M, L], b [1, N, L] -> [count, M, N]: summed in float32, or float64 if `wide`, and then rounded
  // to `type`.
  at::Tensor rows_product(const GpuPacked& a, const GpuPacked& b, bool wide, at::ScalarType type) const;
  // a [count, N, L], b [count, K, L] -> [N, K], the sum over the count, added to `sum` unless it is
  // undefined.
  at::Tensor summed_product(const GpuPacked& a, const GpuPacked& b, const at::Tensor& sum, bool wide) const;

  // x: what was packed, [count, rows, cols], without a transform. Waits for the GPU. tokens: null, or the
  // rows that count.
  Sums sums(const GpuPacked&, const at::Tensor& x, const Tokens* tokens) const;

 private:
  void amax(const kinora_cuda_low&, const at::Tensor& x, const at::Tensor& to) const;
  GpuPacked room_for(const kinora_cuda_low&, const Shape&, int64_t count, bool swizzled, bool all,
                     const at::Tensor& like) const;
  void encode(const kinora_cuda_low&, const at::Tensor& x, const at::Tensor& amax, const at::Tensor& codes,
              const at::Tensor& scales, const at::Tensor& global) const;
  void finish(GpuPacked&, const at::Tensor& amax) const;
  bool swizzles(const kinora_cuda_low&, const at::Tensor& x) const;
  at::Tensor decoded(const GpuPacked&, at::ScalarType, const at::Tensor& global) const;
  at::Tensor tiles(const GpuPacked&) const;
  void by_tensor_cores(const GpuPacked& a, int64_t i, const GpuPacked& b, int64_t j, at::Tensor out) const;
  bool has_tensor_cores(const GpuPacked& a, const GpuPacked& b, bool wide) const;
  int32_t capability(const at::Tensor& x) const;

  const kinora_cuda_api& cuda_;
  const Format& format_;
};

}  // namespace kinora::quantised
