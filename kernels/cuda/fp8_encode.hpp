// The work of each thread of fp8.cu to quantise: 16 values in a row, four times for 128x128 blocks. A thread
// block works on a tile of 128 columns and 32 rows, or 128; the places of threads are those of fp4_tile.hpp.
#pragma once
#include <type_traits>

#include "kernels/cuda/fp4_tile.hpp"
#include "kernels/fp8/quantize.hpp"

namespace kinora::cuda::fp8_tile {

using fp4::Values;
using fp4_tile::by_columns;
using fp4_tile::Cell;
using fp4_tile::kThreads;
using fp4_tile::Most;
using fp4_tile::Place;
using fp4_tile::Tiling;
using fp8::Format;
using fp8::Scale;
using fp8::Scaling;

constexpr int kShift = 3, kUnits = 1 << kShift, kRows = kThreads / kUnits;  // of a tile

template <class T>
struct QuantizeJob {
  Tiling tiles;  // of 32 rows, or four of them for 128x128 blocks
  int64_t cols, blocks;
  const T* x;
  const fp4::Amax* amax;
  uint8_t* codes;
  void* scales;
  fp8::Options options;
  bool aligned, codes_aligned;
};

// The largest magnitudes of the threads, by place in a tile, and of its rows.
struct Shared {
  float threads[kThreads], rows[kRows];
};

// The codes of a matrix that is stored by columns, by the threads that write them.
struct Exchange {
  Pack<uint32_t, 4> codes[kThreads];
};

template <Format kOfFormat, bool kIsSquare, bool kIsByColumns>
struct Mode {
  static constexpr Format kFormat = kOfFormat;
  static constexpr bool kSquare = kIsSquare, kColumns = kIsByColumns;
  static constexpr int kSteps = kIsSquare ? 4 : 1;
};

template <class F>
void for_mode(const fp8::Options& options, F f) {
  const auto chosen = [](bool value, auto next) {
    if (value)
      next(std::true_type());
    else
      next(std::false_type());
  };
  chosen(options.format == Format::e5m2, [&](auto e5m2) {
    chosen(options.scaling == Scaling::square, [&](auto square) {
      chosen(options.column_major, [&](auto columns) {
        f(Mode < e5m2.value ? Format::e5m2 : Format::e4m3, square.value, columns.value > ());
      });
    });
  });
}

// One thread and kSteps tiles. All threads of a block have finished a step before the next one starts where
// the step reads `shared` or the exchange.
template <class T, class M>
struct Quantizing {
  static constexpr int kSteps = M::kSteps;
  Values v[kSteps];
  Place at[kSteps];
  int slot, n[kSteps];  // slot: the thread that would have this place by rows
  Scale scale;

  // Returns the count of values that are not finite.
  KINORA_BOTH uint32_t load_values(const QuantizeJob<T>& job, Cell cell, int thread, Shared* shared) {
    slot = M::kColumns ? by_columns(job.tiles, thread) : thread;
    Most most;
    KINORA_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      at[i] = place_of(job.tiles, {cell.down * kSteps + i, cell.across}, slot);
      n[i] = at[i].inside ? fp4_tile::values_at(job.cols, at[i].unit) : 0;
      fp4_tile::Stored<T> stored;
      if (M::kColumns)
        stored.load_column(job.x + at[i].unit * fp4::kBlock * job.tiles.rows + at[i].row, n[i],
                           job.tiles.rows);
      else
        stored.load(job.x + at[i].row * job.cols + at[i].unit * fp4::kBlock, n[i], job.aligned);
      stored.widen(v[i]);
      const uint32_t bits = fp4_tile::most_bits(v[i]);
      if (bits >= fp4::kInfinity)
        fp4_tile::count_non_finite(v[i], most);
      else
        most.bits = bits > most.bits ? bits : most.bits;
    }
    shared->threads[slot] = fp4::float_of(most.bits);
    return most.non_finite;
  }

  // 128x128 blocks: one thread a row.
  KINORA_BOTH void find_rows(Shared* shared) const {
    if (slot % kUnits == 0) shared->rows[slot / kUnits] = largest(shared->threads + slot, kUnits);
  }

  KINORA_BOTH static float largest(const float* of, int count) {
    float most = 0;
    for (int i = 0; i < count; ++i) most = fp4::larger(most, of[i]);
    return most;
  }

  KINORA_BOTH void find_scale(const QuantizeJob<T>& job, const Shared* shared) {
    const Scaling scaling = job.options.scaling;
    float amax;
    if (M::kSquare)
      amax = largest(shared->rows, kRows);
    else if (scaling == Scaling::tensor)
      amax = job.amax->value;
    else if (scaling == Scaling::mx)
      amax = fp4::larger(shared->threads[slot], shared->threads[slot ^ 1]);
    else
      amax = largest(shared->threads + slot / kUnits * kUnits, kUnits);
    scale = fp8::scale_of<M::kFormat>(scaling, job.options.rule, amax);
    store_scale(job, at[0]);
  }

  // The first thread of a block.
  KINORA_BOTH void store_scale(const QuantizeJob<T>& job, const Place& of) const {
    const Scaling scaling = job.options.scaling;
    if (scaling == Scaling::mx) {
      if (!of.inside || slot % 2 != 0) return;
      const int64_t to = fp8::scale_place(job.blocks, scaling, job.options.swizzled, of.row, of.unit / 2);
      static_cast<uint8_t*>(job.scales)[to] = static_cast<uint8_t>(scale.exponent);
      return;
    }
    if (!of.inside || slot % kUnits != 0 || (M::kSquare && slot != 0)) return;
    if (scaling == Scaling::tensor && (of.row != 0 || of.unit != 0)) return;
    static_cast<float*>(job.scales)[fp8::scale_place(job.blocks, scaling, false, of.row, of.unit / kUnits)] =
        scale.value;
  }

  KINORA_BOTH Pack<uint32_t, 4> encoded(const Values& x) const {
    Pack<uint32_t, 4> codes;
    KINORA_UNROLL
    for (int i = 0; i < 4; ++i) {
      codes.of[i] = 0;
      KINORA_UNROLL
      for (int k = 3; k >= 0; --k)
        codes.of[i] = codes.of[i] << 8 | fp8::code_of<M::kFormat>(fp4::mul(x[4 * i + k], scale.multiply));
    }
    return codes;
  }

  KINORA_BOTH void store(const QuantizeJob<T>& job, int step, Exchange* exchange) const {
    if (!at[step].inside) return;
    const Pack<uint32_t, 4> codes = encoded(v[step]);
    if (M::kColumns)
      exchange->codes[slot] = codes;
    else
      write(job, at[step], codes);
  }

  KINORA_BOTH static void write(const QuantizeJob<T>& job, const Place& to_at,
                                const Pack<uint32_t, 4>& codes) {
    uint8_t* to = job.codes + to_at.row * job.cols + to_at.unit * fp4::kBlock;
    const int values = fp4_tile::values_at(job.cols, to_at.unit);
    if (values == 16 && job.codes_aligned) {
      *reinterpret_cast<Pack<uint32_t, 4>*>(to) = codes;
      return;
    }
    KINORA_UNROLL
    for (int i = 0; i < 16; ++i)
      if (i < values) to[i] = static_cast<uint8_t>(codes.of[i / 4] >> i % 4 * 8);
  }

  // By columns: neighbouring threads write neighbouring codes.
  KINORA_BOTH static void write_exchanged(const QuantizeJob<T>& job, Cell cell, int step, int thread,
                                          const Exchange& exchange) {
    const Place to = place_of(job.tiles, {cell.down * kSteps + step, cell.across}, thread);
    if (to.inside) write(job, to, exchange.codes[thread]);
  }
};

template <class T>
QuantizeJob<T> quantize_job(const fp8::Shape& n, const T* x, const fp8::Options& options,
                            const fp4::Amax* amax, uint8_t* codes, void* scales) {
  const auto units = static_cast<int32_t>(blocks_a_row(n));
  const auto across = static_cast<int32_t>(fp4::divided_up(units, kUnits));
  const int64_t down = fp4::divided_up(n.rows, kRows), high = options.scaling == Scaling::square ? 4 : 1;
  return {{n.rows, units, kShift, across, across * fp4::divided_up(down, high)},
          n.cols,
          blocks_a_row(n, options.scaling),
          x,
          amax,
          codes,
          scales,
          options,
          n.cols % fp4_tile::kPack<T> == 0 && fp4_tile::starts_at(x, 16),
          n.cols % 16 == 0 && fp4_tile::starts_at(codes, 16)};
}

}  // namespace kinora::cuda::fp8_tile
