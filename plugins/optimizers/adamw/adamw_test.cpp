// The threads of kernels/cuda/adamw.cu, run in turn on the processor, give the bits of the processor's loop;
// and that loop is the published algorithm, in float64.
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/adamw_range.hpp"
#include "plugins/optimizers/adamw/adamw_pass.hpp"

namespace kinora::adamw {
namespace {

struct Leaves {
  std::vector<float> w, g, m, v;
  std::vector<std::vector<float>> averages;
};

// A quarter of the gradients are zero, and of the second moments.
Leaves drawn(int64_t count, size_t averages) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const auto some = [&](float by) {
    std::vector<float> out(static_cast<size_t>(count));
    for (float& x : out) x = by * normal(random);
    return out;
  };
  Leaves out{some(1), some(1e-2f), some(1e-2f), some(1e-4f), {}};
  for (size_t i = 0; i < out.g.size(); ++i) {
    out.v[i] = std::fabs(out.v[i]);
    if (i % 4 == 3) out.g[i] = out.v[i] = 0;
  }
  for (size_t k = 0; k < averages; ++k) out.averages.push_back(some(1));
  return out;
}

constexpr double kRate = 3e-3, kDecay = 0.1, kBeta1 = 0.9, kBeta2 = 0.99, kEps = 1e-8, kFactor = 0.37,
                 kShare = 0.01;
constexpr int kTime = 5;

template <class To>
To numbers() {
  using T = decltype(To::eps);
  return {static_cast<T>(kFactor),
          static_cast<T>(1 - kRate * kDecay),
          static_cast<T>(kBeta1),
          static_cast<T>(kBeta2),
          static_cast<T>(1 / std::sqrt(1 - std::pow(kBeta2, kTime))),
          static_cast<T>(kEps),
          static_cast<T>(kRate / (1 - std::pow(kBeta1, kTime)))};
}
float share_of(size_t average) { return static_cast<float>(kShare * static_cast<double>(average + 1)); }

void step_on_processor(Leaves& x, size_t skip) {
  std::vector<AverageRange<float>> to;
  for (size_t k = 0; k < x.averages.size(); ++k) to.push_back({x.averages[k].data() + skip, share_of(k)});
  adamw_pass<float>({x.w.data() + skip, x.g.data() + skip, x.m.data() + skip, x.v.data() + skip,
                     static_cast<int64_t>(x.w.size() - skip)},
                    numbers<AdamWNumbers<float>>(), to);
}

template <int N>
void run(const cuda::AdamWRange& r, const cuda::AdamWNumbers& n) {
  for (int64_t block = 0; block < cuda::adamw_blocks(r, N); ++block)
    for (int t = 0; t < cuda::kAdamWThreads; ++t) cuda::adamw_thread<N>(r, n, block, t);
}
void step_by_threads(Leaves& x, size_t skip) {
  cuda::AdamWRange r{x.w.data() + skip,
                     x.g.data() + skip,
                     x.m.data() + skip,
                     x.v.data() + skip,
                     static_cast<int64_t>(x.w.size() - skip),
                     static_cast<int>(x.averages.size()),
                     {},
                     {}};
  for (size_t k = 0; k < x.averages.size(); ++k)
    r.a[k] = x.averages[k].data() + skip, r.share[k] = share_of(k);
  const auto n = numbers<cuda::AdamWNumbers>();
  EXPECT_EQ(cuda::adamw_packs(r), skip % 4 == 0);
  cuda::adamw_packs(r) ? run<4>(r, n) : run<1>(r, n);
}

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b, const char* what) {
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(float)), 0)
        << what << " " << i << ": " << a[i] << ", " << b[i];
}

TEST(AdamW, ThreadsOfAGpuHaveTheProcessorsBits) {
  for (const int64_t count : {1, 3, 4, 1023, 1024, 1027, 5000})
    for (const size_t averages : {0, 1, 4})
      for (const size_t skip : {0, 1}) {
        if (static_cast<int64_t>(skip) >= count) continue;
        SCOPED_TRACE(testing::Message() << count << " numbers, " << averages << " averages, from " << skip);
        Leaves one = drawn(count, averages), two = one;
        step_on_processor(one, skip);
        step_by_threads(two, skip);
        expect_same_bits(one.w, two.w, "weight");
        expect_same_bits(one.m, two.m, "first moment");
        expect_same_bits(one.v, two.v, "second moment");
        for (size_t k = 0; k < averages; ++k) expect_same_bits(one.averages[k], two.averages[k], "average");
      }
}

TEST(AdamW, IsThePublishedAlgorithm) {
  const Leaves before = drawn(1000, 1);
  Leaves after = before;
  step_by_threads(after, 0);
  for (size_t i = 0; i < before.w.size(); ++i) {
    const double g = kFactor * before.g[i], m = kBeta1 * before.m[i] + (1 - kBeta1) * g,
                 v = kBeta2 * before.v[i] + (1 - kBeta2) * g * g, m_hat = m / (1 - std::pow(kBeta1, kTime)),
                 v_hat = v / (1 - std::pow(kBeta2, kTime)),
                 w = before.w[i] - kRate * (m_hat / (std::sqrt(v_hat) + kEps) + kDecay * before.w[i]);
    ASSERT_NEAR(after.m[i], m, 1e-8) << i;
    ASSERT_NEAR(after.v[i], v, 1e-10) << i;
    ASSERT_NEAR(after.w[i], w, 1e-6 * std::max(1.0, std::fabs(w))) << i;
    const double a = before.averages[0][i];
    const double moved = (1 - kShare) * a + kShare * w;
    ASSERT_NEAR(after.averages[0][i], moved, 1e-6 * std::max(1.0, std::fabs(moved))) << i;
  }
}

}  // namespace
}  // namespace kinora::adamw
