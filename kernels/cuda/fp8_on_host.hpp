// The launches of fp8.cu with every thread run in turn on the processor, for tests: the same jobs, tiles and
// steps.
#pragma once
#include <cstring>
#include <vector>

#include "kernels/cuda/fp8_decode.hpp"
#include "kernels/cuda/fp8_encode.hpp"

namespace kinora::cuda::fp8_tile {

template <class M, class T>
uint64_t run_quantize(const QuantizeJob<T>& job) {
  std::vector<Quantizing<T, M>> threads(kThreads);
  Shared shared = {};
  Exchange exchange = {};
  uint64_t non_finite = 0;
  for (int64_t tile = 0; tile < job.tiles.tiles; ++tile) {
    const Cell cell = cell_of(job.tiles, static_cast<uint32_t>(tile));
    for (int t = 0; t < kThreads; ++t) non_finite += threads[t].load_values(job, cell, t, &shared);
    for (int t = 0; t < kThreads && M::kSquare; ++t) threads[t].find_rows(&shared);
    for (int t = 0; t < kThreads; ++t) threads[t].find_scale(job, &shared);
    for (int step = 0; step < M::kSteps; ++step) {
      for (int t = 0; t < kThreads; ++t) threads[t].store(job, step, &exchange);
      for (int t = 0; t < kThreads && M::kColumns; ++t)
        Quantizing<T, M>::write_exchanged(job, cell, step, t, exchange);
    }
  }
  return non_finite;
}

template <class T>
uint64_t quantize_on_host(const fp8::Shape& n, const T* x, const fp8::Options& options, float amax,
                          uint8_t* codes, void* scales) {
  const fp4::Amax found{amax, 0, 0};
  const auto job = quantize_job(n, x, options, &found, codes, scales);
  if (options.swizzled) std::memset(scales, 0, static_cast<size_t>(scale_bytes(n, options.scaling, true)));
  uint64_t non_finite = 0;
  for_mode(options, [&](auto mode) { non_finite = run_quantize<decltype(mode)>(job); });
  return non_finite;
}

template <class T>
void dequantize_on_host(const fp8::Shape& n, const uint8_t* codes, const void* scales,
                        const fp8::Options& options, T* x) {
  const auto job = dequantize_job(n, codes, scales, options, x);
  for (int64_t tile = 0; tile < job.tiles.tiles; ++tile) {
    const Cell cell = cell_of(job.tiles, static_cast<uint32_t>(tile));
    for (int thread = 0; thread < kThreads; ++thread)
      if (options.format == Format::e4m3)
        decode_pack<T, Format::e4m3>(job, cell, thread);
      else
        decode_pack<T, Format::e5m2>(job, cell, thread);
  }
}

}  // namespace kinora::cuda::fp8_tile
