// The launches of fp4.cu with every thread run in turn on the processor, for tests: the same jobs, tiles and
// steps.
#pragma once
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cuda/fp4_decode.hpp"
#include "kernels/cuda/fp4_encode.hpp"

namespace kinora::cuda::fp4_tile {

template <class T>
fp4::Amax amax_on_host(const fp4::Shape& n, const T* x, bool hadamard, bool column_major,
                       int64_t most_blocks) {
  const auto job = amax_job(n, x, hadamard, column_major);
  const int64_t blocks = std::min(job.tiles.tiles, most_blocks);
  fp4::Amax amax;
  for (int64_t block = 0; block < blocks; ++block)
    for (int thread = 0; thread < kThreads; ++thread) {
      const Most most = find_most(job, block, blocks, thread);
      amax.value = std::max(amax.value, fp4::float_of(most.bits));
      amax.non_finite += most.non_finite;
    }
  return amax;
}

template <class M, class T>
void run_quantize(const QuantizeJob<T>& job) {
  std::vector<Quantizing<T, M>> threads(kThreads);
  Scales scales = {};
  Shared shared = {};
  Exchange exchange = {};
  Cell cell = {};
  for (int64_t tile = 0; tile < job.tiles.tiles; ++tile) {
    if (tile % job.each == 0) {
      for (int t = 0; t < kThreads; ++t) scales.fill(job, tile == 0, t);
      cell = cell_of(job.tiles, static_cast<uint32_t>(tile));
    }
    Column* amax = &shared.amax[tile % job.each % 2];
    for (int t = 0; t < kThreads; ++t) threads[t].load_values(job, scales, cell, t, amax);
    for (int t = 0; t < kThreads; ++t) threads[t].find_scales(job, scales, amax, &shared);
    for (int t = 0; t < kThreads; ++t) threads[t].store(job, scales, &shared, &exchange);
    for (int t = 0; t < kThreads && M::kColumns; ++t)
      Quantizing<T, M>::write_exchanged(job, cell, t, exchange);
    advance(job.tiles, cell);
  }
}

// each: tiles of a thread block; 0: as many as the launch takes.
template <class T>
float quantize_on_host(const fp4::Shape& n, const T* x, const fp4::Options& options, float amax,
                       uint8_t* codes, uint8_t* scales, int32_t each = 0) {
  float global_scale = 0;
  const fp4::Amax found{amax, 0, 0};
  auto job = quantize_job(n, x, options, &found, codes, scales, &global_scale);
  if (each != 0) job.each = each;
  if (options.swizzled) std::memset(scales, 0, static_cast<size_t>(scale_bytes(n, true)));
  for_mode(options, [&](auto mode) { run_quantize<decltype(mode)>(job); });
  return global_scale;
}

template <class T>
void dequantize_on_host(const fp4::Shape& n, const uint8_t* codes, const uint8_t* scales, bool swizzled,
                        float global_scale, T* x) {
  const auto job = dequantize_job(n, codes, scales, swizzled, &global_scale, x);
  Decoder<T> decoder;
  for (uint32_t scale = 0; scale < kThreads; ++scale) decoder.fill(scale, global_scale);
  Cell cell = {};
  for (int64_t tile = 0; tile < job.tiles.tiles; ++tile) {
    if (tile % job.each == 0) cell = cell_of(job.tiles, static_cast<uint32_t>(tile));
    for (int thread = 0; thread < kThreads; ++thread) {
      Decoding<T> work;
      work.load_codes(job, cell, thread);
      work.store(job, decoder);
    }
    advance(job.tiles, cell);
  }
}

}  // namespace kinora::cuda::fp4_tile
