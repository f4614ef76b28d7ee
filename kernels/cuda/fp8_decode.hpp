// The work of each thread of fp8.cu to decode one 16-byte pack of results.
#pragma once
#include "kernels/cuda/fp4_tile.hpp"
#include "kernels/fp8/quantize.hpp"

namespace kinora::cuda::fp8_tile {

template <class T>
struct DequantizeJob {
  fp4_tile::Tiling tiles;  // of packs
  int64_t cols, blocks;
  const uint8_t* codes;
  const void* scales;
  T* x;
  fp8::Options options;
  bool aligned;
};

template <class T>
KINORA_BOTH float scale_at(const DequantizeJob<T>& job, int64_t row, int64_t col) {
  const fp8::Scaling scaling = job.options.scaling;
  const int64_t at =
      fp8::scale_place(job.blocks, scaling, job.options.swizzled, row, col / block_cols(scaling));
  if (scaling == fp8::Scaling::mx) return fp8::e8m0_value(static_cast<const uint8_t*>(job.scales)[at]);
  return static_cast<const float*>(job.scales)[at];
}

template <class T, fp8::Format kFormat>
KINORA_BOTH void decode_pack(const DequantizeJob<T>& job, fp4_tile::Cell cell, int thread) {
  constexpr int kN = fp4_tile::kPack<T>;
  const fp4_tile::Place at = place_of(job.tiles, cell, thread);
  if (!at.inside) return;
  const int64_t col = int64_t{at.unit} * kN, first = at.row * job.cols + col;
  const int left = job.cols - col < kN ? static_cast<int>(job.cols - col) : kN;
  Pack<uint8_t, kN> codes;
  if (job.aligned) {
    codes = *reinterpret_cast<const Pack<uint8_t, kN>*>(job.codes + first);
  } else {
    KINORA_UNROLL
    for (int i = 0; i < kN; ++i) codes.of[i] = i < left ? job.codes[first + i] : uint8_t{0};
  }
  const float scale = scale_at(job, at.row, col);
  Pack<T, kN> out;
  KINORA_UNROLL
  for (int i = 0; i < kN; ++i) fp4::assign(out.of[i], fp4::mul(fp8::value_of<kFormat>(codes.of[i]), scale));
  if (job.aligned) {
    *reinterpret_cast<Pack<T, kN>*>(job.x + first) = out;
    return;
  }
  KINORA_UNROLL
  for (int i = 0; i < kN; ++i)
    if (i < left) job.x[first + i] = out.of[i];
}

template <class T>
DequantizeJob<T> dequantize_job(const fp8::Shape& n, const uint8_t* codes, const void* scales,
                                const fp8::Options& options, T* x) {
  constexpr int kN = fp4_tile::kPack<T>;
  return {fp4_tile::tiling(n.rows, fp4::divided_up(n.cols, kN), 6, false),
          n.cols,
          blocks_a_row(n, options.scaling),
          codes,
          scales,
          x,
          options,
          n.cols % kN == 0 && fp4_tile::starts_at(x, 16) && fp4_tile::starts_at(codes, kN)};
}

}  // namespace kinora::cuda::fp8_tile
