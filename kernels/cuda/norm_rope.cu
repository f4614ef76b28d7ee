#include "kernels/cuda/norm_rope.hpp"
#include "kernels/cuda/norm_rope_row.hpp"
#include "kernels/cuda/team.cuh"

namespace kinora::cuda {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * kWarp;
constexpr int64_t kMostParts = 4096;                    // warps that sum gradients of the weight
constexpr int kMostPairs = kMostHeadWidth / 2 / kWarp;  // per thread

// Rows are counted [B, S, G, n].
struct Place {
  int64_t sample, token, group, head;
};
__device__ Place place_of(const NormRopeShape& n, int64_t r) {
  const auto heads = static_cast<uint32_t>(n.heads), groups = static_cast<uint32_t>(n.groups),
             tokens = static_cast<uint32_t>(n.tokens);
  const uint32_t row = static_cast<uint32_t>(r), group = row / heads, token = group / groups;
  return {token / tokens, token % tokens, group % groups, row % heads};
}
template <class Data>
__device__ int64_t offset(const Heads<Data>& in, Place at) {
  return at.sample * in.sample + at.token * in.token + at.group * in.group + at.head * in.head;
}
template <class T>
__device__ const T* row(const HeadsIn& in, Place at) {
  return static_cast<const T*>(in.data) + offset(in, at);
}
template <class T>
__device__ T* row(const HeadsOut& to, Place at) {
  return static_cast<T*>(to.data) + offset(to, at);
}
__device__ const float* angle(const float* of, const Turns& turns, const NormRopeShape& n, Place at) {
  return of ? of + at.sample * turns.sample + at.token * (n.width / 2) : nullptr;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    forward(NormRopeShape n, int64_t rows, HeadsIn x, const T* weight, Turns turns, T* y, float* rstd) {
  const int64_t r = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (r >= rows) return;
  const Place at = place_of(n, r);
  norm_rope_row(Warp(), row<T>(x, at), weight, angle(turns.cos, turns, n, at), angle(turns.sin, turns, n, at),
                n.width, n.halves, n.eps, y + r * n.width, weight ? rstd + r : nullptr);
}

// Each warp processes the rows of one part in order. partial [parts, d].
template <class T>
__global__ void __launch_bounds__(kThreads)
    backward(NormRopeShape n, int64_t rows, int64_t parts, HeadsIn grad, HeadsIn x, const T* weight,
             Turns turns, const float* rstd, HeadsOut grad_x, float* partial) {
  const int64_t part = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (part >= parts) return;
  float sums[2 * kMostPairs] = {};
  for (int64_t r = part * rows / parts; r < (part + 1) * rows / parts; ++r) {
    const Place at = place_of(n, r);
    norm_rope_row_backward<kMostPairs>(Warp(), row<T>(grad, at), weight ? row<T>(x, at) : nullptr, weight,
                                       angle(turns.cos, turns, n, at), angle(turns.sin, turns, n, at),
                                       n.width, n.halves, weight ? rstd[r] : 1.0f, row<T>(grad_x, at), sums);
  }
  if (!weight) return;
  KINORA_UNROLL
  for (int k = 0; k < kMostPairs; ++k) {
    const int64_t i = Warp().first() + k * kWarp;
    if (i >= n.width / 2) break;
    const Pair at = pair_of(i, n.width, n.halves);
    partial[part * n.width + at.a] = sums[2 * k];
    partial[part * n.width + at.b] = sums[2 * k + 1];
  }
}

int64_t rows_of(const NormRopeShape& n) { return n.samples * n.tokens * n.groups * n.heads; }
int64_t parts_of(const NormRopeShape& n) { return rows_of(n) < kMostParts ? rows_of(n) : kMostParts; }
unsigned blocks_of(int64_t warps) { return static_cast<unsigned>((warps + kWarps - 1) / kWarps); }
bool fits(const NormRopeShape& n) {
  return n.width % 2 == 0 && n.width <= kMostHeadWidth && rows_of(n) <= INT32_MAX;
}

}  // namespace

cudaError_t norm_rope(const NormRopeShape& n, HeadsIn x, const void* weight, Turns turns, void* y,
                      float* rstd, cudaStream_t stream) {
  const int64_t rows = rows_of(n);
  if (!fits(n)) return cudaErrorInvalidValue;
  if (rows * n.width == 0) return cudaSuccess;
  return for_number(n.number, [&](auto number) {
    using T = decltype(number);
    forward<<<blocks_of(rows), kThreads, 0, stream>>>(n, rows, x, static_cast<const T*>(weight), turns,
                                                      static_cast<T*>(y), rstd);
  });
}

int64_t norm_rope_partial(const NormRopeShape& n) { return parts_of(n) * n.width; }

// Without a weight nothing is summed, and every row is a part.
cudaError_t norm_rope_backward(const NormRopeShape& n, HeadsIn grad, HeadsIn x, const void* weight,
                               Turns turns, const float* rstd, HeadsOut grad_x, float* partial,
                               float* grad_weight, cudaStream_t stream) {
  const int64_t rows = rows_of(n), parts = weight ? parts_of(n) : rows;
  if (!fits(n)) return cudaErrorInvalidValue;
  if (rows * n.width == 0)
    return weight ? cudaMemsetAsync(grad_weight, 0, n.width * sizeof(float), stream) : cudaSuccess;
  const cudaError_t error = for_number(n.number, [&](auto number) {
    using T = decltype(number);
    backward<<<blocks_of(parts), kThreads, 0, stream>>>(
        n, rows, parts, grad, x, static_cast<const T*>(weight), turns, rstd, grad_x, partial);
  });
  return error != cudaSuccess || !weight ? error : sum_partials(partial, parts, n.width, grad_weight, stream);
}

}  // namespace kinora::cuda
