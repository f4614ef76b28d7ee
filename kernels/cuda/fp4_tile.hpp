// The work of each thread of fp4.cu and its part of the matrix; the CPU tests run all threads of a launch
// through the same code. A thread block of kThreads has a tile of the matrix: 2^shift units of a row (16
// values each, or one 16-byte pack to decode) times kThreads >> shift rows. Neighbouring threads have
// neighbouring units.
#pragma once
#include "kernels/cuda/number.hpp"
#include "kernels/fp4/block.hpp"
#include "kernels/fp4/hadamard.hpp"
#include "kernels/fp4/quantize.hpp"

namespace kinora::cuda::fp4_tile {

using fp4::kBlock;
using fp4::Values;

constexpr int kThreads = 256, kSide = 16;

struct Tiling {
  int64_t rows;
  int32_t units;  // in a row
  int32_t shift;
  int32_t across;  // tiles in a row
  int64_t tiles;
};

// widest: the largest shift.
inline Tiling tiling(int64_t rows, int64_t units, int widest, bool square) {
  int shift = square ? 4 : 0;
  while (!square && shift < widest && (int64_t{1} << shift) < units) ++shift;
  const int64_t across = fp4::divided_up(units, int64_t{1} << shift),
                down = fp4::divided_up(rows, kThreads >> shift);
  return {rows, static_cast<int32_t>(units), shift, static_cast<int32_t>(across), across * down};
}

struct Place {
  int64_t row;
  int32_t unit;
  bool inside;
};

KINORA_BOTH inline Place place_of(const Tiling& of, uint32_t tile, int thread) {
  const uint32_t down = tile / static_cast<uint32_t>(of.across),
                 across = tile - down * static_cast<uint32_t>(of.across);
  Place at;
  at.row = static_cast<int64_t>(down) * (kThreads >> of.shift) + (thread >> of.shift);
  at.unit = static_cast<int32_t>(across << of.shift) + (thread & ((1 << of.shift) - 1));
  at.inside = at.row < of.rows && at.unit < of.units;
  return at;
}

template <class T>
constexpr int kPack = 16 / static_cast<int>(sizeof(T));

// A block of 16, or its n first values and zeros. aligned: whole blocks start at multiples of 16 bytes.
template <class T>
KINORA_BOTH inline void load(const T* x, int n, bool aligned, Values& v) {
  if (n == 16 && aligned) {
    Pack<T, kPack<T>> packs[16 / kPack<T>];
    KINORA_UNROLL
    for (int p = 0; p < 16 / kPack<T>; ++p) packs[p] = pack<kPack<T>>(x, p);
    KINORA_UNROLL
    for (int i = 0; i < 16; ++i) v[i] = fp4::to_float(packs[i / kPack<T>].of[i % kPack<T>]);
    return;
  }
  KINORA_UNROLL
  for (int i = 0; i < 16; ++i) v[i] = i < n ? fp4::to_float(x[i]) : 0.0f;
}

KINORA_BOTH inline int values_at(int64_t cols, int32_t block) {
  const int64_t left = cols - block * kBlock;
  return left < kBlock ? static_cast<int>(left) : static_cast<int>(kBlock);
}

// The part of one thread in the largest magnitude.
template <class T>
struct AmaxJob {
  Tiling tiles;
  int64_t cols;
  const T* x;
  bool hadamard, aligned;
};

struct Most {
  uint32_t bits = 0;  // of a finite magnitude: they order as magnitudes do
  uint32_t non_finite = 0;
};

KINORA_BOTH inline uint32_t most_bits(const Values& v) {
  uint32_t most = 0;
  KINORA_UNROLL
  for (int i = 0; i < 16; ++i) {
    const uint32_t bits = fp4::bits_of(v[i]) & 0x7fffffffu;
    most = bits > most ? bits : most;
  }
  return most;
}

KINORA_BOTH inline void count_non_finite(const Values& v, Most& most) {
  for (int i = 0; i < 16; ++i) {
    const uint32_t bits = fp4::bits_of(v[i]) & 0x7fffffffu;
    if (bits >= fp4::kInfinity)
      ++most.non_finite;
    else if (bits > most.bits)
      most.bits = bits;
  }
}

KINORA_BOTH inline void add_block(Values& v, bool transformed, Most& most) {
  uint32_t bits = most_bits(v);
  uint32_t bad = 0;
  if (transformed) {
    if (bits >= fp4::kInfinity) {
      Most before;
      count_non_finite(v, before);
      bad = before.non_finite;
    }
    fp4::random_hadamard(v);
    bits = most_bits(v);
  }
  if (bits < fp4::kInfinity) {
    most.bits = bits > most.bits ? bits : most.bits;
  } else {
    const uint32_t others = most.non_finite;
    count_non_finite(v, most);
    if (bad) most.non_finite = others + bad;
  }
}

// The tiles of thread block `first`, one of `blocks`.
template <class T>
KINORA_BOTH Most find_most(const AmaxJob<T>& job, int64_t first, int64_t blocks, int thread) {
  Most most;
  for (int64_t tile = first; tile < job.tiles.tiles; tile += blocks) {
    const Place at = place_of(job.tiles, static_cast<uint32_t>(tile), thread);
    if (!at.inside) continue;
    const int n = values_at(job.cols, at.unit);
    Values v;
    load(job.x + at.row * job.cols + at.unit * kBlock, n, job.aligned, v);
    add_block(v, job.hadamard && n == 16, most);
  }
  return most;
}

template <class T>
struct QuantizeJob {
  Tiling tiles;
  int64_t cols, code_row;  // code_row: bytes
  const T* x;
  const fp4::Amax* amax;
  uint8_t *codes, *scales;
  float* global_scale;
  fp4::Options options;
  bool aligned, codes_aligned;
};

// One number a thread for 16x16 blocks: [row of the block][block].
struct Shared {
  float amax[kThreads], six[kThreads], four[kThreads];
};

// One thread, in three steps. All threads of a block have finished a step before the next one starts where
// the step reads `shared`.
template <class T, bool kSquare, bool kStochastic, bool kAdaptive>
struct Quantizing {
  Values v;
  Place at;
  fp4::TensorScale tensor;
  fp4::BlockScale six, four;
  int n;

  KINORA_BOTH void load_values(const QuantizeJob<T>& job, uint32_t tile, int thread, Shared* shared) {
    at = place_of(job.tiles, tile, thread);
    n = at.inside ? values_at(job.cols, at.unit) : 0;
    load(job.x + at.row * job.cols + at.unit * kBlock, n, job.aligned, v);
    tensor = fp4::tensor_scale(job.options.rule, job.amax->value);
    if (tile == 0 && thread == 0) *job.global_scale = tensor.global;
    if (job.options.hadamard && n == 16) fp4::random_hadamard(v);
    if (tensor.first != 1) {
      KINORA_UNROLL
      for (int i = 0; i < 16; ++i) v[i] = fp4::mul(v[i], tensor.first);
    }
    if (kSquare) shared->amax[thread] = fp4::amax_of(v);
  }

  KINORA_BOTH void find_scales(const QuantizeJob<T>& job, int thread, Shared* shared) {
    float amax = 0;
    if (kSquare) {
      KINORA_UNROLL
      for (int r = 0; r < kSide; ++r) amax = fp4::larger(amax, shared->amax[r * kSide + thread % kSide]);
    } else {
      amax = fp4::amax_of(v);
    }
    six = fp4::block_scale(job.options.rule, tensor, amax, 1);
    if (!kAdaptive) return;
    four = fp4::block_scale(job.options.rule, tensor, amax, 1.5f);
    const float of_six = fp4::error_of(job.options.rule, v, tensor, six);
    const float of_four = fp4::error_of(job.options.rule, v, tensor, four);
    if (kSquare) {
      shared->six[thread] = of_six;
      shared->four[thread] = of_four;
    } else if (of_four < of_six) {
      six = four;
    }
  }

  // The error of a 16x16 block from those of its rows.
  KINORA_BOTH static float block_error(fp4::ScaleRule rule, const float* rows, int thread) {
    Values e;
    KINORA_UNROLL
    for (int r = 0; r < kSide; ++r) e[r] = rows[r * kSide + thread % kSide];
    return rule == fp4::ScaleRule::abs_max ? fp4::amax_of(e) : fp4::sum_of(e);
  }

  KINORA_BOTH void store(const QuantizeJob<T>& job, int thread, const Shared* shared) {
    if (kSquare && kAdaptive &&
        block_error(job.options.rule, shared->four, thread) <
            block_error(job.options.rule, shared->six, thread))
      six = four;
    if (!at.inside) return;
    job.scales[fp4::scale_place(job.tiles.units, job.options.swizzled, at.row, at.unit)] =
        static_cast<uint8_t>(six.code);
    Pack<uint32_t, 2> codes;
    KINORA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float* from = v + half * 8;
      if (kStochastic)
        codes.of[half] = fp4::stochastic_codes(
            from, six.multiply, fp4::noise_of_eight(job.options.noise, at.row, int64_t{at.unit} * 2 + half));
      else
        codes.of[half] = fp4::nearest_codes(from, six.multiply);
    }
    uint8_t* to = job.codes + at.row * job.code_row + int64_t{at.unit} * 8;
    if (n == 16 && job.codes_aligned) {
      *reinterpret_cast<Pack<uint32_t, 2>*>(to) = codes;
      return;
    }
    for (int i = 0; i < (n + 1) / 2; ++i) to[i] = static_cast<uint8_t>(codes.of[i / 4] >> (i % 4 * 8));
  }
};

template <class T>
struct DequantizeJob {
  Tiling tiles;  // of packs
  int64_t cols, code_row;
  int32_t blocks;  // in a row
  const uint8_t *codes, *scales;
  const float* global_scale;
  T* x;
  bool swizzled, aligned;
};

template <class T>
KINORA_BOTH void decode_pack(const DequantizeJob<T>& job, uint32_t tile, int thread) {
  constexpr int kN = kPack<T>;
  const Place at = place_of(job.tiles, tile, thread);
  if (!at.inside) return;
  const int64_t col = int64_t{at.unit} * kN, left = job.cols - col;
  const uint8_t* from = job.codes + at.row * job.code_row + col / 2;
  const uint32_t scale = job.scales[fp4::scale_place(job.blocks, job.swizzled, at.row, col / kBlock)];
  T* to = job.x + at.row * job.cols + col;
  Pack<uint8_t, kN / 2> bytes;
  if (job.aligned) {
    bytes = pack<kN / 2>(from, 0);
  } else {
    KINORA_UNROLL
    for (int i = 0; i < kN / 2; ++i) bytes.of[i] = 2 * i < left ? from[i] : 0;
  }
  const float multiply = fp4::decode_multiply(scale, *job.global_scale);
  Pack<T, kN> out;
  KINORA_UNROLL
  for (int i = 0; i < kN; ++i) {
    const uint32_t code = static_cast<uint32_t>(bytes.of[i / 2]) >> (i % 2 * 4);
    fp4::assign(out.of[i], fp4::mul(fp4::e2m1_value(code & 15), multiply));
  }
  if (job.aligned) {
    pack<kN>(to, 0) = out;
    return;
  }
  KINORA_UNROLL
  for (int i = 0; i < kN; ++i)
    if (i < left) to[i] = out.of[i];
}

// The jobs of a launch.
inline bool starts_at(const void* p, unsigned bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }

template <class T>
AmaxJob<T> amax_job(const fp4::Shape& n, const T* x, bool hadamard) {
  return {tiling(n.rows, blocks_a_row(n), 4, false), n.cols, x, hadamard,
          n.cols % kPack<T> == 0 && starts_at(x, 16)};
}

template <class T>
QuantizeJob<T> quantize_job(const fp4::Shape& n, const T* x, const fp4::Options& options,
                            const fp4::Amax* amax, uint8_t* codes, uint8_t* scales, float* global_scale) {
  const int64_t code_row = code_bytes_a_row(n);
  return {tiling(n.rows, blocks_a_row(n), 4, options.square),
          n.cols,
          code_row,
          x,
          amax,
          codes,
          scales,
          global_scale,
          options,
          n.cols % kPack<T> == 0 && starts_at(x, 16),
          code_row % 8 == 0 && starts_at(codes, 8)};
}

template <class T>
DequantizeJob<T> dequantize_job(const fp4::Shape& n, const uint8_t* codes, const uint8_t* scales,
                                bool swizzled, const float* global_scale, T* x) {
  constexpr int kN = kPack<T>;
  const bool aligned = n.cols % kN == 0 && starts_at(x, 16) && starts_at(codes, kN / 2);
  return {tiling(n.rows, fp4::divided_up(n.cols, kN), 6, false),
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
