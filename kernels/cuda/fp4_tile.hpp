// The part of the matrix of each thread of fp4.cu, and its work in the largest magnitude; fp4_encode.hpp and
// fp4_decode.hpp have the other work. The CPU tests run all threads of a launch through the same code. A thread
// block of kThreads works on a tile of the matrix at a time: 2^shift units of a row (16 values each, or one
// 16-byte pack to decode) times kThreads >> shift rows. Neighbouring threads have neighbouring units or, while
// they read a matrix that is stored by columns, neighbouring rows.
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

// widest: the largest shift. One less where that leaves fewer threads without a unit.
inline Tiling tiling(int64_t rows, int64_t units, int widest, bool square) {
  const auto across = [&](int shift) { return fp4::divided_up(units, int64_t{1} << shift); };
  int shift = square ? 4 : 0;
  while (!square && shift < widest && (int64_t{1} << shift) < units) ++shift;
  if (!square && shift > 4 && across(shift - 1) < 2 * across(shift)) --shift;
  return {rows, static_cast<int32_t>(units), shift, static_cast<int32_t>(across(shift)),
          across(shift) * fp4::divided_up(rows, kThreads >> shift)};
}

// Where a tile is, counted in tiles. One thread block has several tiles in a row, so that what it prepares
// for all of them costs little, but enough blocks remain for every processor of the device.
struct Cell {
  uint32_t down, across;
};
KINORA_BOTH inline Cell cell_of(const Tiling& of, uint32_t tile) {
  const uint32_t down = tile / static_cast<uint32_t>(of.across);
  return {down, tile - down * static_cast<uint32_t>(of.across)};
}
KINORA_BOTH inline void advance(const Tiling& of, Cell& cell) {
  if (++cell.across < static_cast<uint32_t>(of.across)) return;
  cell = {cell.down + 1, 0};
}
inline int32_t tiles_a_block(const Tiling& of, int64_t most) {
  constexpr int64_t kBlocks = 1024;
  const int64_t each = of.tiles / kBlocks;
  return static_cast<int32_t>(each < 1 ? 1 : each < most ? each : most);
}

struct Place {
  int64_t row;
  int32_t unit;
  bool inside;
};

KINORA_BOTH inline Place place_of(const Tiling& of, Cell cell, int thread) {
  Place at;
  const auto t = static_cast<uint32_t>(thread);
  at.row = static_cast<int64_t>(uint64_t{cell.down} * (uint32_t{kThreads} >> of.shift) + (t >> of.shift));
  at.unit = static_cast<int32_t>((cell.across << of.shift) + (t & ((1u << of.shift) - 1)));
  at.inside = at.row < of.rows && at.unit < of.units;
  return at;
}

KINORA_BOTH inline int rows_of(const Tiling& of) { return kThreads >> of.shift; }
// The thread whose place in a matrix by rows is that of this thread in one by columns.
KINORA_BOTH inline int by_columns(const Tiling& of, int thread) {
  return thread % rows_of(of) << of.shift | thread / rows_of(of);
}

template <class T>
constexpr int kPack = 16 / static_cast<int>(sizeof(T));

// A block of 16 as it is stored, or its n first values and zeros. aligned: whole blocks start at multiples of
// 16 bytes.
template <class T>
struct Stored {
  Pack<T, kPack<T>> packs[16 / kPack<T>];

  KINORA_BOTH T& at(int i) { return packs[i / kPack<T>].of[i % kPack<T>]; }
  KINORA_BOTH void load(const T* x, int n, bool aligned) {
    if (n == 16 && aligned) {
      KINORA_UNROLL
      for (int p = 0; p < 16 / kPack<T>; ++p) packs[p] = pack<kPack<T>>(x, p);
      return;
    }
    load_column(x, n, 1);
  }
  // A column of a matrix that is stored by columns; stride: the number of its rows.
  KINORA_BOTH void load_column(const T* x, int n, int64_t stride) {
    KINORA_UNROLL
    for (int i = 0; i < 16; ++i) at(i) = i < n ? x[i * stride] : T{};
  }
  KINORA_BOTH void widen(Values& v) {
    KINORA_UNROLL
    for (int i = 0; i < 16; ++i) v[i] = fp4::to_float(at(i));
  }
};

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
  bool hadamard, aligned, column_major;
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

KINORA_BOTH inline uint32_t non_finite_of(const Values& v) {
  Most most;
  count_non_finite(v, most);
  return most.non_finite;
}

template <class T>
KINORA_BOTH void load_at(const AmaxJob<T>& job, const Place& at, int n, Values& v) {
  Stored<T> stored;
  if (job.column_major)
    stored.load_column(job.x + at.unit * kBlock * job.tiles.rows + at.row, n, job.tiles.rows);
  else
    stored.load(job.x + at.row * job.cols + at.unit * kBlock, n, job.aligned);
  stored.widen(v);
}

// The tiles of thread block `first`, one of `blocks`. A value that is not finite makes all 16 of its
// transformed block so.
template <class T>
KINORA_BOTH Most find_most(const AmaxJob<T>& job, int64_t first, int64_t blocks, int thread) {
  Most most;
  for (int64_t tile = first; tile < job.tiles.tiles; tile += blocks) {
    const int slot = job.column_major ? by_columns(job.tiles, thread) : thread;
    const Place at = place_of(job.tiles, cell_of(job.tiles, static_cast<uint32_t>(tile)), slot);
    if (!at.inside) continue;
    const int n = values_at(job.cols, at.unit);
    const bool transformed = job.hadamard && n == 16;
    Values v;
    load_at(job, at, n, v);
    if (transformed) fp4::random_hadamard(v);
    const uint32_t bits = most_bits(v);
    if (bits < fp4::kInfinity) {
      most.bits = bits > most.bits ? bits : most.bits;
      continue;
    }
    const uint32_t others = most.non_finite;
    count_non_finite(v, most);
    if (!transformed) continue;
    load_at(job, at, n, v);
    if (const uint32_t bad = non_finite_of(v)) most.non_finite = others + bad;
  }
  return most;
}

inline bool starts_at(const void* p, unsigned bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }

// Only a transform depends on what a row is.
template <class T>
AmaxJob<T> amax_job(fp4::Shape n, const T* x, bool hadamard, bool column_major) {
  if (!hadamard && column_major) n = {n.cols, n.rows};
  const bool columns = hadamard && column_major;
  return {tiling(n.rows, blocks_a_row(n), columns ? 3 : 5, false),
          n.cols,
          x,
          hadamard,
          n.cols % kPack<T> == 0 && starts_at(x, 16),
          columns};
}

}  // namespace kinora::cuda::fp4_tile
