#include <type_traits>

#include "kernels/cuda/fp4.hpp"
#include "kernels/cuda/fp4_decode.hpp"
#include "kernels/cuda/fp4_encode.hpp"

namespace kinora::cuda {
namespace {

using namespace fp4_tile;

constexpr int kWarp = 32, kBlocksOfAmax = 2048;

__device__ Most larger_of(Most a, uint32_t bits, uint32_t non_finite) {
  return {bits > a.bits ? bits : a.bits, a.non_finite + non_finite};
}
__device__ Most warp_most(Most most) {
  for (int lane = kWarp / 2; lane > 0; lane /= 2)
    most = larger_of(most, __shfl_xor_sync(0xffffffff, most.bits, lane),
                     __shfl_xor_sync(0xffffffff, most.non_finite, lane));
  return most;
}

unsigned grid(const Tiling& tiles, int32_t each) {
  return static_cast<unsigned>(fp4::divided_up(tiles.tiles, each));
}

// The order of the atomic operations does not matter: a maximum and a count.
template <class T>
__global__ void __launch_bounds__(kThreads) amax_kernel(AmaxJob<T> job, fp4::Amax* amax) {
  __shared__ Most of_warp[kThreads / kWarp];
  const int thread = static_cast<int>(threadIdx.x);
  Most most = warp_most(find_most(job, blockIdx.x, gridDim.x, thread));
  if (thread % kWarp == 0) of_warp[thread / kWarp] = most;
  __syncthreads();
  if (thread != 0) return;
  for (int warp = 1; warp < kThreads / kWarp; ++warp)
    most = larger_of(most, of_warp[warp].bits, of_warp[warp].non_finite);
  if (most.bits != 0) atomicMax(reinterpret_cast<unsigned*>(&amax->value), most.bits);
  if (most.non_finite != 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(&amax->non_finite),
              static_cast<unsigned long long>(most.non_finite));
}

template <class T, class M>
__global__ void __launch_bounds__(kThreads) quantize_kernel(QuantizeJob<T> job) {
  __shared__ Scales scales;
  __shared__ std::conditional_t<M::kSquare, Shared, char> room;
  __shared__ std::conditional_t<M::kColumns, Exchange[2], char> exchange_room;  // of even and odd tiles
  Shared* shared = M::kSquare ? reinterpret_cast<Shared*>(&room) : nullptr;
  Exchange* exchange = M::kColumns ? reinterpret_cast<Exchange*>(&exchange_room) : nullptr;
  const int thread = static_cast<int>(threadIdx.x);
  scales.fill(job, blockIdx.x == 0, thread);
  __syncthreads();
  const uint32_t first = blockIdx.x * static_cast<uint32_t>(job.each);
  Cell cell = cell_of(job.tiles, first);
  for (int i = 0; i < job.each && first + i < job.tiles.tiles; ++i) {
    Column* amax = M::kSquare ? &shared->amax[i % 2] : nullptr;
    Exchange* results = M::kColumns ? &exchange[i % 2] : nullptr;
    Quantizing<T, M> work;
    work.load_values(job, scales, cell, thread, amax);
    if (M::kSquare) __syncthreads();
    work.find_scales(job, scales, amax, shared);
    if (M::kSquare && M::kAdaptive) __syncthreads();
    work.store(job, scales, shared, results);
    if (M::kColumns) {
      __syncthreads();
      work.write_exchanged(job, cell, thread, *results);
    }
    advance(job.tiles, cell);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) dequantize_kernel(DequantizeJob<T> job) {
  constexpr int kAtOnce = 2;
  __shared__ Decoder<T> decoder;
  const int thread = static_cast<int>(threadIdx.x);
  decoder.fill(threadIdx.x, *job.global_scale);
  __syncthreads();
  const uint32_t first = blockIdx.x * static_cast<uint32_t>(job.each);
  Cell cell = cell_of(job.tiles, first);
  for (int i = 0; i < job.each; i += kAtOnce) {
    Decoding<T> work[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      work[k].at.inside = false;
      if (i + k < job.each) work[k].load_codes(job, cell, thread);  // rows past the last are outside
      advance(job.tiles, cell);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) work[k].store(job, decoder);
  }
}

// A thread block counts tiles in 32 bits.
cudaError_t check_size(const Tiling& tiles) {
  return tiles.tiles > INT32_MAX ? cudaErrorInvalidConfiguration : cudaSuccess;
}

}  // namespace

template <class T>
cudaError_t fp4_amax(const fp4::Shape& n, const T* x, bool hadamard, bool column_major, fp4::Amax* amax,
                     cudaStream_t stream) {
  const cudaError_t zeroed = cudaMemsetAsync(amax, 0, sizeof *amax, stream);
  if (zeroed != cudaSuccess || n.rows * n.cols == 0) return zeroed;
  const AmaxJob<T> job = amax_job(n, x, hadamard, column_major);
  if (const cudaError_t error = check_size(job.tiles); error != cudaSuccess) return error;
  const int64_t blocks = job.tiles.tiles < kBlocksOfAmax ? job.tiles.tiles : kBlocksOfAmax;
  amax_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(job, amax);
  return cudaGetLastError();
}

template <class T>
cudaError_t fp4_quantize(const fp4::Shape& n, const T* x, const fp4::Options& options, const fp4::Amax* amax,
                         uint8_t* codes, uint8_t* scales, float* global_scale, cudaStream_t stream) {
  if (n.rows * n.cols == 0) return cudaSuccess;
  const auto job = quantize_job(n, x, options, amax, codes, scales, global_scale);
  if (const cudaError_t error = check_size(job.tiles); error != cudaSuccess) return error;
  if (options.swizzled && (n.rows % 128 != 0 || blocks_a_row(n) % 4 != 0)) {
    const cudaError_t zeroed = cudaMemsetAsync(scales, 0, static_cast<size_t>(scale_bytes(n, true)), stream);
    if (zeroed != cudaSuccess) return zeroed;
  }
  for_mode(options, [&](auto mode) {
    quantize_kernel<T, decltype(mode)><<<grid(job.tiles, job.each), kThreads, 0, stream>>>(job);
  });
  return cudaGetLastError();
}

template <class T>
cudaError_t fp4_dequantize(const fp4::Shape& n, const uint8_t* codes, const uint8_t* scales, bool swizzled,
                           const float* global_scale, T* x, cudaStream_t stream) {
  if (n.rows * n.cols == 0) return cudaSuccess;
  const auto job = dequantize_job(n, codes, scales, swizzled, global_scale, x);
  if (const cudaError_t error = check_size(job.tiles); error != cudaSuccess) return error;
  dequantize_kernel<<<grid(job.tiles, job.each), kThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

using fp4::Bfloat16;
template cudaError_t fp4_amax(const fp4::Shape&, const float*, bool, bool, fp4::Amax*, cudaStream_t);
template cudaError_t fp4_amax(const fp4::Shape&, const Bfloat16*, bool, bool, fp4::Amax*, cudaStream_t);
template cudaError_t fp4_quantize(const fp4::Shape&, const float*, const fp4::Options&, const fp4::Amax*,
                                  uint8_t*, uint8_t*, float*, cudaStream_t);
template cudaError_t fp4_quantize(const fp4::Shape&, const Bfloat16*, const fp4::Options&, const fp4::Amax*,
                                  uint8_t*, uint8_t*, float*, cudaStream_t);
template cudaError_t fp4_dequantize(const fp4::Shape&, const uint8_t*, const uint8_t*, bool, const float*,
                                    float*, cudaStream_t);
template cudaError_t fp4_dequantize(const fp4::Shape&, const uint8_t*, const uint8_t*, bool, const float*,
                                    Bfloat16*, cudaStream_t);

}  // namespace kinora::cuda
