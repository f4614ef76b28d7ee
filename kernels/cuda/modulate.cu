#include "kernels/cuda/modulate.hpp"
#include "kernels/cuda/modulate_row.hpp"
#include "kernels/cuda/team.cuh"

namespace kinora::cuda {
namespace {

constexpr int kThreads = 128, kMostParts = 64, kRowsAPart = 64;

struct Place {
  int64_t sample, token;
};

template <class T>
__device__ const T* row(const RowsIn& in, Place at) {
  return static_cast<const T*>(in.data) + at.sample * in.sample + at.token * in.token;
}

template <int N, class T>
__global__ void __launch_bounds__(kThreads)
    forward(ModulateShape n, RowsIn x, RowsIn scale, RowsIn shift, T* y, float* mean, float* rstd) {
  __shared__ float shared[kWarp];
  const int64_t r = blockIdx.x;
  const Place at{r / n.tokens, r % n.tokens};
  modulate_row<N>(Block{shared}, row<T>(x, at), row<T>(scale, at), row<T>(shift, at), n.width, n.eps,
                  y + r * n.width, mean + r, rstd + r);
}

template <int N, class T>
__global__ void __launch_bounds__(kThreads) backward(ModulateShape n, RowsIn grad, RowsIn x, RowsIn scale,
                                                     const float* mean, const float* rstd, T* grad_x) {
  __shared__ float shared[kWarp];
  const int64_t r = blockIdx.x;
  const Place at{r / n.tokens, r % n.tokens};
  modulate_row_backward<N>(Block{shared}, row<T>(grad, at), row<T>(x, at), row<T>(scale, at), n.width,
                           mean[r], rstd[r], grad_x + r * n.width);
}

// The rows that share a row of scale and shift, split into parts.
struct Groups {
  int64_t groups, rows, parts;  // rows: of each group
};
Groups groups_of(const ModulateShape& n, Broadcast over) {
  Groups out{(over.samples ? 1 : n.samples) * (over.tokens ? 1 : n.tokens),
             (over.samples ? n.samples : 1) * (over.tokens ? n.tokens : 1), 1};
  const int64_t parts = (out.rows + kRowsAPart - 1) / kRowsAPart;
  out.parts = parts < kMostParts ? parts : kMostParts;
  return out;
}
// Row i of group g.
__device__ Place place_of(const ModulateShape& n, Broadcast over, int64_t g, int64_t i) {
  if (over.samples && over.tokens) return {i / n.tokens, i % n.tokens};
  if (over.samples) return {i, g};
  if (over.tokens) return {g, i};
  return {g / n.tokens, g % n.tokens};
}

// One thread per channel: part blockIdx.y of group blockIdx.x / blocks. to [parts, groups, D] each.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sums(ModulateShape n, Broadcast over, Groups of, int64_t blocks, RowsIn grad, RowsIn x, const float* mean,
         const float* rstd, float* to_scale, float* to_shift) {
  const int64_t g = blockIdx.x / blocks, channel = blockIdx.x % blocks * kThreads + threadIdx.x,
                part = blockIdx.y;
  if (channel >= n.width) return;
  float scale = 0, shift = 0;
  for (int64_t i = part * of.rows / of.parts; i < (part + 1) * of.rows / of.parts; ++i) {
    const Place at = place_of(n, over, g, i);
    const int64_t r = at.sample * n.tokens + at.token;
    const float v = static_cast<float>(row<T>(grad, at)[channel]);
    shift += v;
    scale += v * (static_cast<float>(row<T>(x, at)[channel]) - mean[r]) * rstd[r];
  }
  const int64_t to = (part * of.groups + g) * n.width + channel;
  to_scale[to] = scale;
  to_shift[to] = shift;
}

bool packs(const ModulateShape& n, int N, std::initializer_list<RowsIn> all) {
  for (const auto& in : all)
    if (reinterpret_cast<uintptr_t>(in.data) % 16 || in.sample % N || in.token % N) return false;
  return n.width % N == 0;
}

// f(T, numbers per pack: as many as 16 bytes hold, or 1)
template <class F>
cudaError_t launch(const ModulateShape& n, std::initializer_list<RowsIn> all, F f) {
  if (n.samples * n.tokens * n.width == 0) return cudaSuccess;
  return for_number(n.number, [&](auto number) {
    using T = decltype(number);
    constexpr int N = 16 / sizeof(T);
    if (packs(n, N, all))
      f(number, std::integral_constant<int, N>());
    else
      f(number, std::integral_constant<int, 1>());
  });
}

unsigned rows_of(const ModulateShape& n) { return static_cast<unsigned>(n.samples * n.tokens); }
RowsIn whole(const ModulateShape& n, const void* data) { return {data, n.tokens * n.width, n.width}; }

}  // namespace

cudaError_t modulate(const ModulateShape& n, RowsIn x, RowsIn scale, RowsIn shift, void* y, float* mean,
                     float* rstd, cudaStream_t stream) {
  return launch(n, {x, scale, shift, whole(n, y)}, [&](auto number, auto N) {
    using T = decltype(number);
    forward<N.value><<<rows_of(n), kThreads, 0, stream>>>(n, x, scale, shift, static_cast<T*>(y), mean, rstd);
  });
}

cudaError_t modulate_backward(const ModulateShape& n, RowsIn grad, RowsIn x, RowsIn scale, const float* mean,
                              const float* rstd, void* grad_x, cudaStream_t stream) {
  return launch(n, {grad, x, scale, whole(n, grad_x)}, [&](auto number, auto N) {
    using T = decltype(number);
    backward<N.value>
        <<<rows_of(n), kThreads, 0, stream>>>(n, grad, x, scale, mean, rstd, static_cast<T*>(grad_x));
  });
}

int64_t modulate_partial(const ModulateShape& n, Broadcast over) {
  const Groups of = groups_of(n, over);
  return of.parts == 1 ? 0 : 2 * of.parts * of.groups * n.width;
}

cudaError_t modulate_backward_sums(const ModulateShape& n, Broadcast over, RowsIn grad, RowsIn x,
                                   const float* mean, const float* rstd, float* partial, float* grad_scale,
                                   float* grad_shift, cudaStream_t stream) {
  const Groups of = groups_of(n, over);
  const int64_t numbers = of.groups * n.width, blocks = (n.width + kThreads - 1) / kThreads;
  if (numbers == 0) return cudaSuccess;
  if (of.rows == 0) {
    cudaMemsetAsync(grad_scale, 0, numbers * sizeof(float), stream);
    return cudaMemsetAsync(grad_shift, 0, numbers * sizeof(float), stream);
  }
  const bool whole = of.parts == 1;
  float *scale = whole ? grad_scale : partial, *shift = whole ? grad_shift : partial + of.parts * numbers;
  const dim3 grid(static_cast<unsigned>(of.groups * blocks), static_cast<unsigned>(of.parts));
  const cudaError_t error = for_number(n.number, [&](auto number) {
    sums<decltype(number)>
        <<<grid, kThreads, 0, stream>>>(n, over, of, blocks, grad, x, mean, rstd, scale, shift);
  });
  if (error != cudaSuccess || whole) return error;
  const cudaError_t first = sum_partials(scale, of.parts, numbers, grad_scale, stream);
  return first != cudaSuccess ? first : sum_partials(shift, of.parts, numbers, grad_shift, stream);
}

}  // namespace kinora::cuda
