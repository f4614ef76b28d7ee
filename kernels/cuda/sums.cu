#include "kernels/cuda/rows.cuh"

namespace kinora::cuda {
namespace {

constexpr int64_t kMostParts = 256, kRowsAPart = 64;
constexpr int kColumns = 32, kSlices = 32;

// A block sums kColumns columns: each of its slices every kSlices-th part in order, then the slices in order.
__global__ void __launch_bounds__(kColumns* kSlices)
    sum(const float* partial, int64_t parts, int64_t n, float* to) {
  __shared__ float slices[kSlices][kColumns];
  const int column = static_cast<int>(threadIdx.x) % kColumns,
            slice = static_cast<int>(threadIdx.x) / kColumns;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kColumns + column;
  float all = 0;
  if (i < n)
    for (int64_t p = slice; p < parts; p += kSlices) all += partial[p * n + i];
  slices[slice][column] = all;
  __syncthreads();
  if (slice > 0 || i >= n) return;
  for (int s = 1; s < kSlices; ++s) all += slices[s][column];
  to[i] = all;
}

}  // namespace

cudaError_t sum_partials(const float* partial, int64_t parts, int64_t n, float* to, cudaStream_t stream) {
  if (n == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>((n + kColumns - 1) / kColumns);
  sum<<<blocks, kColumns * kSlices, 0, stream>>>(partial, parts, n, to);
  return cudaGetLastError();
}

Groups groups_of(const RowsShape& n, Broadcast over) {
  Groups out{(over.samples ? 1 : n.samples) * (over.tokens ? 1 : n.tokens),
             (over.samples ? n.samples : 1) * (over.tokens ? n.tokens : 1), 1};
  const int64_t parts = (out.rows + kRowsAPart - 1) / kRowsAPart;
  out.parts = parts < kMostParts ? parts : kMostParts;
  return out;
}

int64_t sum_partial(const RowsShape& n, Broadcast over) {
  const Groups of = groups_of(n, over);
  return of.parts > 1 ? of.parts * of.groups * n.width : 0;
}

}  // namespace kinora::cuda
