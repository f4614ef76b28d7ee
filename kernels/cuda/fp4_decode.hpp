// The work of each thread of fp4.cu to decode one 16-byte pack of results.
#pragma once
#include <type_traits>

#include "kernels/cuda/fp4_tile.hpp"

namespace kinora::cuda::fp4_tile {

template <class T>
struct DequantizeJob {
  Tiling tiles;  // of packs
  int32_t each;  // tiles of a thread block
  int64_t cols, code_row;
  int32_t blocks;  // in a row
  const uint8_t *codes, *scales;
  const float* global_scale;
  T* x;
  bool swizzled, aligned;
};

// Maps a code and the code of its scale to a result. A thread block fills it once.
template <class T>
struct Decoder;

template <>
struct Decoder<float> {
  using Codes = uint16_t;
  float multiply[kThreads];

  KINORA_BOTH void fill(uint32_t scale, float global) {
    multiply[scale] = fp4::decode_multiply(scale, global);
  }
  KINORA_BOTH Pack<float, 4> decode(uint32_t codes, uint32_t scale) const {
    const float by = multiply[scale];
    Pack<float, 4> out;
    KINORA_UNROLL
    for (int i = 0; i < 4; ++i) out.of[i] = fp4::mul(fp4::e2m1_value(codes >> 4 * i & 15), by);
    return out;
  }
};

// A magnitude has eight codes, so a scale has eight results: their upper bytes and their lower bytes, by code,
// from which one instruction picks four.
template <>
struct Decoder<fp4::Bfloat16> {
  using Codes = uint32_t;
  Pack<uint32_t, 4> bytes[kThreads];

  KINORA_BOTH void fill(uint32_t scale, float global) {
    const float by = fp4::decode_multiply(scale, global);
    Pack<uint32_t, 4> all = {};
    KINORA_UNROLL
    for (uint32_t code = 0; code < 8; ++code) {
      fp4::Bfloat16 x;
      fp4::assign(x, fp4::mul(fp4::e2m1_value(code), by));
      all.of[code / 4] |= (uint32_t{x.bits} >> 8) << code % 4 * 8;
      all.of[2 + code / 4] |= (uint32_t{x.bits} & 0xff) << code % 4 * 8;
    }
    bytes[scale] = all;
  }

  // Two results a word.
  KINORA_BOTH Pack<uint32_t, 4> decode(uint32_t codes, uint32_t scale) const {
    const Pack<uint32_t, 4> from = bytes[scale];
    Pack<uint32_t, 4> out;
    KINORA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const uint32_t which = (codes & 0x77777777u) >> 16 * half & 0xffff;
      const uint32_t signs = fp4::pick_bytes(codes << 4, codes, half ? 0x7362u : 0x5140u) & 0x80808080u;
      const uint32_t upper = fp4::pick_bytes(from.of[0], from.of[1], which) ^ signs;
      const uint32_t lower = fp4::pick_bytes(from.of[2], from.of[3], which);
      out.of[2 * half] = fp4::pick_bytes(lower, upper, 0x5140u);
      out.of[2 * half + 1] = fp4::pick_bytes(lower, upper, 0x7362u);
    }
    return out;
  }
};

// One thread and one tile; store() is apart so that several loads are under way.
template <class T>
struct Decoding {
  using Codes = typename Decoder<T>::Codes;
  static constexpr int kN = kPack<T>;
  Place at;
  int left;  // values
  uint32_t codes, scale;

  KINORA_BOTH void load_codes(const DequantizeJob<T>& job, Cell cell, int thread) {
    at = place_of(job.tiles, cell, thread);
    if (!at.inside) return;
    const int64_t col = int64_t{at.unit} * kN;
    left = job.cols - col < kN ? static_cast<int>(job.cols - col) : kN;
    scale = job.scales[fp4::scale_place(job.blocks, job.swizzled, at.row, at.unit / (16 / kN))];
    const uint8_t* from = job.codes + at.row * job.code_row + col / 2;
    if (job.aligned) {
      codes = *reinterpret_cast<const Codes*>(from);
      return;
    }
    codes = 0;
    KINORA_UNROLL
    for (int i = 0; i < kN / 2; ++i)
      if (2 * i < left) codes |= uint32_t{from[i]} << 8 * i;
  }

  KINORA_BOTH void store(const DequantizeJob<T>& job, const Decoder<T>& decoder) const {
    if (!at.inside) return;
    T* to = job.x + at.row * job.cols + int64_t{at.unit} * kN;
    const auto out = decoder.decode(codes, scale);
    if (job.aligned) {
      *reinterpret_cast<std::remove_const_t<decltype(out)>*>(to) = out;
      return;
    }
    KINORA_UNROLL
    for (int i = 0; i < kN; ++i) {
      if (i >= left) continue;
      if constexpr (kN == 8)
        to[i].bits = static_cast<uint16_t>(out.of[i / 2] >> i % 2 * 16);
      else
        to[i] = out.of[i];
    }
  }
};

template <class T>
DequantizeJob<T> dequantize_job(const fp4::Shape& n, const uint8_t* codes, const uint8_t* scales,
                                bool swizzled, const float* global_scale, T* x) {
  constexpr int kN = kPack<T>;
  const bool aligned = n.cols % kN == 0 && starts_at(x, 16) && starts_at(codes, kN / 2);
  const Tiling tiles = tiling(n.rows, fp4::divided_up(n.cols, kN), 6, false);
  return {tiles,
          tiles_a_block(tiles, 8),
          n.cols,
          code_bytes_a_row(n),
          static_cast<int32_t>(blocks_a_row(n)),
          codes,
          scales,
          global_scale,
          x,
          swizzled,
          aligned};
}

}  // namespace kinora::cuda::fp4_tile
