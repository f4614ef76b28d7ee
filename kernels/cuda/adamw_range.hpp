// The work of each thread of adamw.cu: N neighbouring numbers of each tensor, or what is left of them at the
// end.
#pragma once
#include <cmath>

#include "kernels/cuda/number.hpp"
#include "kernels/fp4/arithmetic.hpp"

namespace kinora::cuda {

struct AdamWNumbers {
  float gradient_factor;  // from gradient clipping
  float keep;             // 1 - rate * weight decay
  float beta1, beta2;
  float root2;  // 1 / sqrt(1 - beta2^t)
  float eps;
  float step;  // rate / (1 - beta1^t)
};

constexpr int kMostAverages = 4;

// All of `count` numbers; averages moves a[k] by share[k] towards the new weights.
struct AdamWRange {
  float* w;
  const float* g;
  float *m, *v;
  int64_t count;
  int averages;  // at most kMostAverages
  float* a[kMostAverages];
  float share[kMostAverages];
};

constexpr int kAdamWThreads = 256;

KINORA_BOTH inline float rounded_root(float x) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(x);
#else
  return std::sqrt(x);
#endif
}

// One number of each tensor.
struct AdamWState {
  float w, m, v;
};
KINORA_BOTH inline AdamWState adamw_number(const AdamWState& old, float gradient, const AdamWNumbers& n) {
  using fp4::add, fp4::sub, fp4::mul, fp4::div;
  const float g = mul(gradient, n.gradient_factor);
  AdamWState out;
  out.m = add(old.m, mul(sub(1.0f, n.beta1), sub(g, old.m)));
  out.v = add(mul(n.beta2, old.v), mul(mul(sub(1.0f, n.beta2), g), g));
  out.w = sub(mul(old.w, n.keep), div(mul(n.step, out.m), add(mul(rounded_root(out.v), n.root2), n.eps)));
  return out;
}

KINORA_BOTH inline float moved(float average, float share, float w) {
  return fp4::add(average, fp4::mul(share, fp4::sub(w, average)));
}

// N numbers from number i on: all inside, and packs that start at multiples of 4 N bytes.
template <int N>
KINORA_BOTH void adamw_pack(const AdamWRange& r, const AdamWNumbers& n, int64_t i) {
  Pack<float, N> w = pack<N>(r.w + i, 0), m = pack<N>(r.m + i, 0), v = pack<N>(r.v + i, 0);
  const Pack<float, N> g = pack<N>(r.g + i, 0);
  KINORA_UNROLL
  for (int k = 0; k < N; ++k) {
    const AdamWState next = adamw_number({w.of[k], m.of[k], v.of[k]}, g.of[k], n);
    w.of[k] = next.w, m.of[k] = next.m, v.of[k] = next.v;
  }
  pack<N>(r.w + i, 0) = w;
  pack<N>(r.m + i, 0) = m;
  pack<N>(r.v + i, 0) = v;
  KINORA_UNROLL
  for (int j = 0; j < kMostAverages; ++j) {
    if (j >= r.averages) break;
    Pack<float, N> a = pack<N>(r.a[j] + i, 0);
    KINORA_UNROLL
    for (int k = 0; k < N; ++k) a.of[k] = moved(a.of[k], r.share[j], w.of[k]);
    pack<N>(r.a[j] + i, 0) = a;
  }
}

template <int N>
KINORA_BOTH void adamw_thread(const AdamWRange& r, const AdamWNumbers& n, int64_t block, int thread) {
  const int64_t i = (block * kAdamWThreads + thread) * N;
  if (i + N <= r.count) return adamw_pack<N>(r, n, i);
  for (int64_t at = i; at < r.count; ++at) adamw_pack<1>(r, n, at);
}

inline int64_t adamw_blocks(const AdamWRange& r, int N) {
  return (r.count + int64_t{N} * kAdamWThreads - 1) / (int64_t{N} * kAdamWThreads);
}

// Whether all tensors start at multiples of 16 bytes.
inline bool adamw_packs(const AdamWRange& r) {
  bool fits = true;
  const auto add = [&](const float* p) { fits = fits && reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  add(r.w), add(r.g), add(r.m), add(r.v);
  for (int j = 0; j < r.averages; ++j) add(r.a[j]);
  return fits;
}

}  // namespace kinora::cuda
