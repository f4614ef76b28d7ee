// The work of each thread of fp4.cu to quantise one block of 16 values in a row.
#pragma once
#include <type_traits>

#include "kernels/cuda/fp4_tile.hpp"

namespace kinora::cuda::fp4_tile {

template <class T>
struct QuantizeJob {
  Tiling tiles;
  int32_t each;            // tiles of a thread block
  int64_t cols, code_row;  // code_row: bytes
  const T* x;
  const fp4::Amax* amax;
  uint8_t *codes, *scales;
  float* global_scale;
  fp4::Options options;
  bool aligned, codes_aligned;
};

// The largest magnitude alone decides this table. A block scale has 127 values, so a thread block finds once
// what each of them means.
struct Scales {
  static constexpr int kCodes = 0x7f;
  fp4::TensorScale tensor;
  float value[kCodes + 1], multiply[kCodes + 1];

  template <class T>
  KINORA_BOTH void fill(const QuantizeJob<T>& job, bool first_block, int thread) {
    if (thread >= kCodes) return;
    const fp4::TensorScale of = fp4::tensor_scale(job.options.rule, job.amax->value);
    const fp4::BlockScale scale = fp4::scale_of_code(of, static_cast<uint32_t>(thread));
    value[thread] = scale.value, multiply[thread] = scale.multiply;
    if (thread != 0) return;
    tensor = of;
    if (first_block) *job.global_scale = of.global;
  }
};

// One number a thread for 16x16 blocks; those of a block stand together, and blocks start in banks of their
// own.
struct Column {
  static constexpr int kStride = kSide + 4;
  alignas(16) float of[kSide * kStride];

  KINORA_BOTH void set(int thread, float x) { of[thread % kSide * kStride + thread / kSide] = x; }
  KINORA_BOTH void get(int thread, Values& all) const {
    KINORA_UNROLL
    for (int p = 0; p < kSide / 4; ++p) {
      const Pack<float, 4> part = pack<4>(of + thread % kSide * kStride, p);
      KINORA_UNROLL
      for (int i = 0; i < 4; ++i) all[p * 4 + i] = part.of[i];
    }
  }
};
struct Shared {
  Column amax[2], six, four;  // amax: of even and odd tiles, since no barrier stands between two tiles
};

// The results of a matrix that is stored by columns, by the threads that write them.
struct Exchange {
  Pack<uint32_t, 2> codes[kThreads];
  uint8_t scales[kThreads];
};

// A scale, and what it does to the values of this thread.
struct Candidate {
  uint32_t scale;
  float error;
  Pack<uint32_t, 2> codes;
};

// The choices that a kernel is compiled for.
template <bool kIsSquare, bool kIsStochastic, bool kIsAdaptive, bool kIsByColumns>
struct Mode {
  static constexpr bool kSquare = kIsSquare, kStochastic = kIsStochastic, kAdaptive = kIsAdaptive,
                        kColumns = kIsByColumns;
};

// f with the modes of a kernel as compile-time constants.
template <class F>
void for_mode(const fp4::Options& options, F f) {
  const auto chosen = [](bool value, auto next) {
    if (value)
      next(std::true_type());
    else
      next(std::false_type());
  };
  chosen(options.square, [&](auto square) {
    chosen(options.stochastic, [&](auto stochastic) {
      chosen(is_adaptive(options.rule), [&](auto adaptive) {
        chosen(options.column_major, [&](auto columns) {
          f(Mode<square.value, stochastic.value, adaptive.value, columns.value>());
        });
      });
    });
  });
}

// One thread and one tile, in three steps, and a fourth by columns. All threads of a block have finished a
// step before the next one starts where the step reads `shared` or the exchange.
template <class T, class M>
struct Quantizing {
  static constexpr bool kSquare = M::kSquare, kStochastic = M::kStochastic, kAdaptive = M::kAdaptive;
  Values v;
  Place at;
  int slot, n;  // slot: the thread that would have this place by rows
  Candidate six, four;

  KINORA_BOTH void load_values(const QuantizeJob<T>& job, const Scales& scales, Cell cell, int thread,
                               Column* amax) {
    slot = M::kColumns ? by_columns(job.tiles, thread) : thread;
    at = place_of(job.tiles, cell, slot);
    n = at.inside ? values_at(job.cols, at.unit) : 0;
    Stored<T> stored;
    if (M::kColumns)
      stored.load_column(job.x + at.unit * kBlock * job.tiles.rows + at.row, n, job.tiles.rows);
    else
      stored.load(job.x + at.row * job.cols + at.unit * kBlock, n, job.aligned);
    stored.widen(v);
    if (job.options.hadamard && n == 16) fp4::random_hadamard(v);
    const float first = scales.tensor.first;
    if (first != 1) {
      KINORA_UNROLL
      for (int i = 0; i < 16; ++i) v[i] = fp4::mul(v[i], first);
    }
    if (kSquare) amax->set(slot, fp4::amax_of(v));
  }

  // Rounds to nearest, which an adaptive rule needs for its errors.
  KINORA_BOTH Candidate tried(const QuantizeJob<T>& job, const Scales& scales, float exact) const {
    Candidate c;
    c.scale = fp4::e4m3_code(exact);
    const float multiply = scales.multiply[c.scale];
    Values e;
    KINORA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float* from = v + half * 8;
      const fp4::Errors errors{from, scales.tensor.encode, scales.value[c.scale], e + half * 8};
      c.codes.of[half] = fp4::nearest_codes(from, multiply, errors);
    }
    c.error = fp4::error_of(job.options.rule, e);
    return c;
  }

  KINORA_BOTH void find_scales(const QuantizeJob<T>& job, const Scales& scales, Column* amax,
                               Shared* shared) {
    float most;
    if (kSquare) {
      Values rows;
      amax->get(slot, rows);
      most = fp4::amax_of(rows);
    } else {
      most = fp4::amax_of(v);
    }
    const float exact = fp4::exact_scale(job.options.rule, scales.tensor, most);
    if (!kAdaptive) {
      six.scale = fp4::e4m3_code(exact);
      return;
    }
    six = tried(job, scales, exact);
    four = tried(job, scales, fp4::mul(exact, 1.5f));
    if (kSquare) {
      shared->six.set(slot, six.error);
      shared->four.set(slot, four.error);
    } else if (four.error < six.error) {
      six = four;
    }
  }

  // The error of a 16x16 block from those of its rows.
  KINORA_BOTH static float block_error(fp4::ScaleRule rule, const Column& rows, int thread) {
    Values e;
    rows.get(thread, e);
    return rule == fp4::ScaleRule::abs_max ? fp4::amax_of(e) : fp4::sum_of(e);
  }

  KINORA_BOTH void encode(const QuantizeJob<T>& job, float multiply) {
    KINORA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float* from = v + half * 8;
      if (kStochastic)
        six.codes.of[half] = fp4::stochastic_codes(
            from, multiply, fp4::noise_of_eight(job.options.noise, at.row, int64_t{at.unit} * 2 + half));
      else
        six.codes.of[half] = fp4::nearest_codes(from, multiply, fp4::Ignore());
    }
  }

  KINORA_BOTH void store(const QuantizeJob<T>& job, const Scales& scales, const Shared* shared,
                         Exchange* exchange) {
    if (kSquare && kAdaptive &&
        block_error(job.options.rule, shared->four, slot) < block_error(job.options.rule, shared->six, slot))
      six = four;
    if (!at.inside) return;
    if (kStochastic || !kAdaptive) encode(job, scales.multiply[six.scale]);
    if (!M::kColumns) return write(job, at, n, six.scale, six.codes);
    exchange->codes[slot] = six.codes;
    exchange->scales[slot] = static_cast<uint8_t>(six.scale);
  }

  KINORA_BOTH static void write(const QuantizeJob<T>& job, const Place& to_at, int values, uint32_t scale,
                                const Pack<uint32_t, 2>& codes) {
    job.scales[fp4::scale_place(job.tiles.units, job.options.swizzled, to_at.row, to_at.unit)] =
        static_cast<uint8_t>(scale);
    uint8_t* to = job.codes + to_at.row * job.code_row + int64_t{to_at.unit} * 8;
    if (values == 16 && job.codes_aligned) {
      *reinterpret_cast<Pack<uint32_t, 2>*>(to) = codes;
      return;
    }
    uint64_t left = uint64_t{codes.of[1]} << 32 | codes.of[0];
    KINORA_NO_UNROLL
    for (int i = 0; i < (values + 1) / 2; ++i, left >>= 8) to[i] = static_cast<uint8_t>(left);
  }

  // By columns: neighbouring threads write neighbouring codes.
  KINORA_BOTH static void write_exchanged(const QuantizeJob<T>& job, Cell cell, int thread,
                                          const Exchange& exchange) {
    const Place to = place_of(job.tiles, cell, thread);
    if (!to.inside) return;
    write(job, to, values_at(job.cols, to.unit), exchange.scales[thread], exchange.codes[thread]);
  }
};

template <class T>
QuantizeJob<T> quantize_job(const fp4::Shape& n, const T* x, const fp4::Options& options,
                            const fp4::Amax* amax, uint8_t* codes, uint8_t* scales, float* global_scale) {
  const int64_t code_row = code_bytes_a_row(n);
  const Tiling tiles = tiling(n.rows, blocks_a_row(n), options.column_major ? 3 : 5, options.square);
  return {tiles,
          tiles_a_block(tiles, 4),
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

}  // namespace kinora::cuda::fp4_tile
