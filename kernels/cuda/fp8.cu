#include "kernels/cuda/fp8.hpp"
#include "kernels/cuda/fp8_decode.hpp"
#include "kernels/cuda/fp8_encode.hpp"

namespace kinora::cuda {
namespace {

using namespace fp8_tile;

template <class T, class M>
__global__ void __launch_bounds__(kThreads)
    quantize_kernel(QuantizeJob<T> job, unsigned long long* non_finite) {
  __shared__ Shared shared;
  __shared__ std::conditional_t<M::kColumns, Exchange, char> exchange_room;
  Exchange* exchange = M::kColumns ? reinterpret_cast<Exchange*>(&exchange_room) : nullptr;
  const int thread = static_cast<int>(threadIdx.x);
  const Cell cell = cell_of(job.tiles, blockIdx.x);
  Quantizing<T, M> work;
  const uint32_t bad = work.load_values(job, cell, thread, &shared);
  if (bad != 0) atomicAdd(non_finite, static_cast<unsigned long long>(bad));
  __syncthreads();
  if (M::kSquare) {
    work.find_rows(&shared);
    __syncthreads();
  }
  work.find_scale(job, &shared);
#pragma unroll
  for (int step = 0; step < M::kSteps; ++step) {
    work.store(job, step, exchange);
    if (!M::kColumns) continue;
    __syncthreads();
    work.write_exchanged(job, cell, step, thread, *exchange);
    __syncthreads();
  }
}

template <class T, Format kFormat>
__global__ void __launch_bounds__(kThreads) dequantize_kernel(DequantizeJob<T> job) {
  decode_pack<T, kFormat>(job, cell_of(job.tiles, blockIdx.x), static_cast<int>(threadIdx.x));
}

cudaError_t check_size(const Tiling& tiles) {
  return tiles.tiles > INT32_MAX ? cudaErrorInvalidConfiguration : cudaSuccess;
}

}  // namespace

template <class T>
cudaError_t fp8_quantize(const fp8::Shape& n, const T* x, const fp8::Options& options, const fp4::Amax* amax,
                         uint8_t* codes, void* scales, unsigned long long* non_finite, cudaStream_t stream) {
  const cudaError_t zeroed = cudaMemsetAsync(non_finite, 0, sizeof *non_finite, stream);
  if (zeroed != cudaSuccess || n.rows * n.cols == 0) return zeroed;
  const auto job = quantize_job(n, x, options, amax, codes, scales);
  if (const cudaError_t error = check_size(job.tiles); error != cudaSuccess) return error;
  if (options.scaling == Scaling::mx && options.swizzled && (n.rows % 128 != 0 || job.blocks % 4 != 0)) {
    const auto bytes = static_cast<size_t>(scale_bytes(n, options.scaling, true));
    if (const cudaError_t error = cudaMemsetAsync(scales, 0, bytes, stream); error != cudaSuccess)
      return error;
  }
  for_mode(options, [&](auto mode) {
    quantize_kernel<T, decltype(mode)>
        <<<static_cast<unsigned>(job.tiles.tiles), kThreads, 0, stream>>>(job, non_finite);
  });
  return cudaGetLastError();
}

template <class T>
cudaError_t fp8_dequantize(const fp8::Shape& n, const uint8_t* codes, const void* scales,
                           const fp8::Options& options, T* x, cudaStream_t stream) {
  if (n.rows * n.cols == 0) return cudaSuccess;
  const auto job = dequantize_job(n, codes, scales, options, x);
  if (const cudaError_t error = check_size(job.tiles); error != cudaSuccess) return error;
  const auto blocks = static_cast<unsigned>(job.tiles.tiles);
  if (options.format == Format::e4m3)
    dequantize_kernel<T, Format::e4m3><<<blocks, kThreads, 0, stream>>>(job);
  else
    dequantize_kernel<T, Format::e5m2><<<blocks, kThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

using fp8::Bfloat16;
template cudaError_t fp8_quantize(const fp8::Shape&, const float*, const fp8::Options&, const fp4::Amax*,
                                  uint8_t*, void*, unsigned long long*, cudaStream_t);
template cudaError_t fp8_quantize(const fp8::Shape&, const Bfloat16*, const fp8::Options&, const fp4::Amax*,
                                  uint8_t*, void*, unsigned long long*, cudaStream_t);
template cudaError_t fp8_dequantize(const fp8::Shape&, const uint8_t*, const void*, const fp8::Options&,
                                    float*, cudaStream_t);
template cudaError_t fp8_dequantize(const fp8::Shape&, const uint8_t*, const void*, const fp8::Options&,
                                    Bfloat16*, cudaStream_t);

}  // namespace kinora::cuda
