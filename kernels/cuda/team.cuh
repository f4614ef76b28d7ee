// Teams of threads on the device (number.hpp), and the sum of partial sums.
#pragma once
#include <cuda_bf16.h>

#include "kernels/cuda/number.hpp"
#include "kernels/cuda/rows.hpp"

namespace kinora::cuda {

constexpr int kWarp = 32;

struct Warp {
  __device__ int64_t first() const { return threadIdx.x % kWarp; }
  __device__ int64_t step() const { return kWarp; }
  __device__ float sum(float x) const {
    for (int lane = kWarp / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(0xffffffff, x, lane);
    return x;
  }
};

// All threads of a one-dimensional block of whole warps.
struct Block {
  float* shared;  // [kWarp]
  __device__ int64_t first() const { return threadIdx.x; }
  __device__ int64_t step() const { return blockDim.x; }
  __device__ float sum(float x) const {
    const int warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
    x = Warp().sum(x);
    __syncthreads();  // the previous sum has been read
    if (threadIdx.x % kWarp == 0) shared[warp] = x;
    __syncthreads();
    x = threadIdx.x % kWarp < warps ? shared[threadIdx.x % kWarp] : 0.0f;
    return Warp().sum(x);
  }
};

template <class F>
cudaError_t for_number(Number number, F f) {
  if (number == Number::bfloat16)
    f(__nv_bfloat16());
  else
    f(float());
  return cudaGetLastError();
}

// to[i] = sum over p of partial[p, i], p < parts, in an order that depends only on `parts`.
cudaError_t sum_partials(const float* partial, int64_t parts, int64_t n, float* to, cudaStream_t stream);

}  // namespace kinora::cuda
