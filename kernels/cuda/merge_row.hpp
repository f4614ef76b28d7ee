// The work of each thread of merge.cu: a warp has one row, of a query and a head. With sums s and t of
// exponentials, given by their logarithms, and results x and y:
//
//   x <- x + (y - x) t / (s + t),   ln s <- ln (s + t)
#pragma once
#include <cmath>

#include "kernels/cuda/number.hpp"

namespace kinora::cuda {

// out [B, S, H, d] with d contiguous and log_sum [B, S, H]; strides in elements.
template <class F>
struct Attended {
  struct Strides {
    int64_t sample, token, head;
  };
  F *out, *log_sum;
  Strides of_out, of_sum;
};

// B, S, H, d.
struct MergeShape {
  int64_t samples, tokens, heads, width;
};

constexpr int kMergeLanes = 32, kMergeRows = 8, kMergeThreads = kMergeLanes * kMergeRows;

struct MergeJob {
  MergeShape n;
  Attended<float> all;
  Attended<const float> more;
  int64_t rows() const { return n.samples * n.tokens * n.heads; }
  int64_t blocks() const { return (rows() + kMergeRows - 1) / kMergeRows; }
};

template <class Strides>
KINORA_BOTH int64_t merge_offset(const Strides& by, int64_t sample, int64_t token, int64_t head) {
  return sample * by.sample + token * by.token + head * by.head;
}

// One thread in two steps: all threads of a warp have read the sums before one of them writes the new one.
template <int N>
struct Merging {
  bool inside;
  float *out, *log_sum, sum, weight;
  const float* more;

  KINORA_BOTH void load(const MergeJob& job, int64_t block, int thread) {
    const int64_t row = block * kMergeRows + thread / kMergeLanes;
    inside = row < job.n.samples * job.n.tokens * job.n.heads;
    if (!inside) return;
    const auto heads = static_cast<uint32_t>(job.n.heads), tokens = static_cast<uint32_t>(job.n.tokens),
               query = static_cast<uint32_t>(row) / heads;
    const int64_t head = static_cast<uint32_t>(row) % heads, sample = query / tokens, token = query % tokens;
    out = job.all.out + merge_offset(job.all.of_out, sample, token, head);
    more = job.more.out + merge_offset(job.more.of_out, sample, token, head);
    log_sum = job.all.log_sum + merge_offset(job.all.of_sum, sample, token, head);
    const float s = *log_sum, t = job.more.log_sum[merge_offset(job.more.of_sum, sample, token, head)];
    weight = 1.0f / (1.0f + std::exp(s - t));
    sum = (s > t ? s : t) + std::log1p(std::exp(s > t ? t - s : s - t));
  }

  KINORA_BOTH void store(const MergeJob& job, int thread) {
    if (!inside) return;
    const int lane = thread % kMergeLanes;
    for (int64_t i = lane; i < job.n.width / N; i += kMergeLanes) {
      Pack<float, N> x = pack<N>(out, i);
      const Pack<float, N> y = pack<N>(more, i);
      KINORA_UNROLL
      for (int k = 0; k < N; ++k) x.of[k] += weight * (y.of[k] - x.of[k]);
      pack<N>(out, i) = x;
    }
    if (lane == 0) *log_sum = sum;
  }
};

// Whether rows are whole packs of four numbers that start at multiples of 16 bytes.
inline bool merges_packs(const MergeJob& job) {
  const auto fits = [&](const auto& of, const float* data) {
    return reinterpret_cast<uintptr_t>(data) % 16 == 0 && of.sample % 4 == 0 && of.token % 4 == 0 &&
           of.head % 4 == 0;
  };
  return job.n.width % 4 == 0 && fits(job.all.of_out, job.all.out) && fits(job.more.of_out, job.more.out);
}

}  // namespace kinora::cuda
