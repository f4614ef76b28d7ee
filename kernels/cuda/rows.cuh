// Rows of rows.hpp on the device: their addresses, loads of 16 bytes, and sums over the rows that share one.
#pragma once
#include <initializer_list>

#include "kernels/cuda/team.cuh"

namespace kinora::cuda {

constexpr int kRowThreads = 128;  // of the block that works on a row

struct RowPlace {
  int64_t sample, token;
};
// Row i, counted over all samples.
__device__ inline RowPlace place_in(int64_t i, int64_t tokens) {
  const auto row = static_cast<uint32_t>(i), each = static_cast<uint32_t>(tokens);
  return {row / each, row % each};
}

template <class T>
__device__ const T* row(const RowsIn& in, RowPlace at) {
  return static_cast<const T*>(in.data) + at.sample * in.sample + at.token * in.token;
}

// The rows that share a row, split into parts.
struct Groups {
  int64_t groups, rows, parts;  // rows: of each group
};
Groups groups_of(const RowsShape&, Broadcast over);

// Row i of group g.
__device__ inline RowPlace place_of(const RowsShape& n, Broadcast over, int64_t g, int64_t i) {
  if (over.samples && over.tokens) return place_in(i, n.tokens);
  if (over.samples) return {i, g};
  if (over.tokens) return {g, i};
  return place_in(g, n.tokens);
}

template <int K>
struct Sums {
  float* to[K];  // each [parts, groups, D]
};

// One thread per channel: part blockIdx.y of group blockIdx.x / blocks. term(place, channel, sums) adds what
// one number of a row contributes.
template <int K, class Term>
__global__ void __launch_bounds__(kRowThreads)
    sum_part(RowsShape n, Broadcast over, Groups of, int64_t blocks, Term term, Sums<K> all) {
  const int64_t g = blockIdx.x / blocks, channel = blockIdx.x % blocks * kRowThreads + threadIdx.x,
                part = blockIdx.y;
  if (channel >= n.width) return;
  float sums[K] = {};
  for (int64_t i = part * of.rows / of.parts; i < (part + 1) * of.rows / of.parts; ++i)
    term(place_of(n, over, g, i), channel, sums);
  for (int k = 0; k < K; ++k) all.to[k][(part * of.groups + g) * n.width + channel] = sums[k];
}

// to: K sums, each [B or 1, S or 1, D]. partial: room for K * sum_partial() numbers.
template <int K, class Term>
cudaError_t sum_rows(const RowsShape& n, Broadcast over, const Term& term, float* partial,
                     const Sums<K>& results, cudaStream_t stream) {
  const Groups of = groups_of(n, over);
  const int64_t numbers = of.groups * n.width, blocks = (n.width + kRowThreads - 1) / kRowThreads;
  if (numbers == 0) return cudaSuccess;
  Sums<K> parts = results;
  for (int k = 0; k < K; ++k) {
    if (of.rows == 0)
      if (const auto error = cudaMemsetAsync(results.to[k], 0, numbers * sizeof(float), stream)) return error;
    if (of.parts > 1) parts.to[k] = partial + k * of.parts * numbers;
  }
  if (of.rows == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(of.groups * blocks), static_cast<unsigned>(of.parts));
  sum_part<K><<<grid, kRowThreads, 0, stream>>>(n, over, of, blocks, term, parts);
  cudaError_t error = cudaGetLastError();
  for (int k = 0; k < K && of.parts > 1 && error == cudaSuccess; ++k)
    error = sum_partials(parts.to[k], of.parts, numbers, results.to[k], stream);
  return error;
}

// Whether packs of N numbers divide all rows and are aligned.
inline bool packs(const RowsShape& n, int N, std::initializer_list<RowsIn> all) {
  for (const auto& in : all)
    if (reinterpret_cast<uintptr_t>(in.data) % 16 || in.sample % N || in.token % N) return false;
  return n.width % N == 0;
}

// Calls f(T, numbers per pack: as many as 16 bytes hold, or 1, number of rows), which launches a kernel.
template <class F>
cudaError_t for_rows(const RowsShape& n, std::initializer_list<RowsIn> all, F f) {
  const int64_t rows = n.samples * n.tokens;
  if (rows * n.width == 0) return cudaSuccess;
  if (rows > INT32_MAX) return cudaErrorInvalidValue;
  return for_number(n.number, [&](auto number) {
    using T = decltype(number);
    constexpr int N = 16 / sizeof(T);
    if (packs(n, N, all))
      f(number, std::integral_constant<int, N>(), static_cast<unsigned>(rows));
    else
      f(number, std::integral_constant<int, 1>(), static_cast<unsigned>(rows));
  });
}

// A contiguous tensor of this shape.
inline RowsIn whole(const RowsShape& n, const void* data) { return {data, n.tokens * n.width, n.width}; }

}  // namespace kinora::cuda
