#include "plugins/optimizers/adamw/adamw_pass.hpp"

#include <cmath>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kinora::adamw {
namespace {

template <class T>
void plain(const AdamWRange<T>& r, const AdamWNumbers<T>& n, const std::vector<AverageRange<T>>& averages,
           int64_t from) {
  const T rest1 = 1 - n.beta1, rest2 = 1 - n.beta2;
  for (int64_t i = from; i < r.count; ++i) {
    const T g = r.g[i] * n.gradient_factor;
    const T m = r.m[i] + rest1 * (g - r.m[i]);
    const T v = n.beta2 * r.v[i] + rest2 * g * g;
    const T w = r.w[i] * n.keep - n.step * m / (std::sqrt(v) * n.root2 + n.eps);
    r.m[i] = m, r.v[i] = v, r.w[i] = w;
    for (const auto& to : averages) to.a[i] = to.a[i] + to.share * (w - to.a[i]);
  }
}

#if defined(__x86_64__)
#define KINORA_AVX2 __attribute__((target("avx2")))
#define KINORA_LANE __attribute__((target("avx2"), always_inline)) static inline

// The instructions for one register of T.
template <class T>
struct Lane;
template <>
struct Lane<float> {
  using V = __m256;
  static constexpr int64_t width = 8;
  KINORA_LANE V all(float x) { return _mm256_set1_ps(x); }
  KINORA_LANE V load(const float* p) { return _mm256_loadu_ps(p); }
  KINORA_LANE void store(float* p, V x) { _mm256_storeu_ps(p, x); }
  KINORA_LANE V add(V a, V b) { return _mm256_add_ps(a, b); }
  KINORA_LANE V sub(V a, V b) { return _mm256_sub_ps(a, b); }
  KINORA_LANE V mul(V a, V b) { return _mm256_mul_ps(a, b); }
  KINORA_LANE V div(V a, V b) { return _mm256_div_ps(a, b); }
  KINORA_LANE V root(V a) { return _mm256_sqrt_ps(a); }
};
template <>
struct Lane<double> {
  using V = __m256d;
  static constexpr int64_t width = 4;
  KINORA_LANE V all(double x) { return _mm256_set1_pd(x); }
  KINORA_LANE V load(const double* p) { return _mm256_loadu_pd(p); }
  KINORA_LANE void store(double* p, V x) { _mm256_storeu_pd(p, x); }
  KINORA_LANE V add(V a, V b) { return _mm256_add_pd(a, b); }
  KINORA_LANE V sub(V a, V b) { return _mm256_sub_pd(a, b); }
  KINORA_LANE V mul(V a, V b) { return _mm256_mul_pd(a, b); }
  KINORA_LANE V div(V a, V b) { return _mm256_div_pd(a, b); }
  KINORA_LANE V root(V a) { return _mm256_sqrt_pd(a); }
};

// plain() one register at a time; returns how many numbers it processed.
template <class T>
KINORA_AVX2 int64_t wide(const AdamWRange<T>& r, const AdamWNumbers<T>& n,
                         const std::vector<AverageRange<T>>& averages) {
  using L = Lane<T>;
  const auto factor = L::all(n.gradient_factor), keep = L::all(n.keep), beta2 = L::all(n.beta2),
             rest1 = L::all(1 - n.beta1), rest2 = L::all(1 - n.beta2), root2 = L::all(n.root2),
             eps = L::all(n.eps), step = L::all(n.step);
  int64_t i = 0;
  for (; i + L::width <= r.count; i += L::width) {
    const auto g = L::mul(L::load(r.g + i), factor), m0 = L::load(r.m + i);
    const auto m = L::add(m0, L::mul(rest1, L::sub(g, m0)));
    const auto v = L::add(L::mul(beta2, L::load(r.v + i)), L::mul(L::mul(rest2, g), g));
    const auto by = L::add(L::mul(L::root(v), root2), eps);
    const auto w = L::sub(L::mul(L::load(r.w + i), keep), L::div(L::mul(step, m), by));
    L::store(r.m + i, m);
    L::store(r.v + i, v);
    L::store(r.w + i, w);
    for (const auto& to : averages) {
      const auto a = L::load(to.a + i);
      L::store(to.a + i, L::add(a, L::mul(L::all(to.share), L::sub(w, a))));
    }
  }
  return i;
}

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}
#endif

}  // namespace

template <class T>
void adamw_pass(const AdamWRange<T>& r, const AdamWNumbers<T>& n,
                const std::vector<AverageRange<T>>& averages) {
  int64_t done = 0;
#if defined(__x86_64__)
  if (has_avx2()) done = wide(r, n, averages);
#endif
  plain(r, n, averages, done);
}

template void adamw_pass(const AdamWRange<float>&, const AdamWNumbers<float>&,
                         const std::vector<AverageRange<float>>&);
template void adamw_pass(const AdamWRange<double>&, const AdamWNumbers<double>&,
                         const std::vector<AverageRange<double>>&);

}  // namespace kinora::adamw
