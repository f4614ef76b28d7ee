// The blocks against the plain float64 formula, forward and backward, in the processor's best build
// and in the AVX2 build.
#include "kernels/cpu/attention.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/attention_table.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

using attention_detail::AttentionKernels;
using Numbers = std::vector<float>;

Numbers drawn_values(int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  Numbers out(static_cast<size_t>(count));
  for (auto& x : out) x = normal(engine);
  return out;
}

// Relative to the largest expected number. For a gradient that is zero (of q and k with a single
// key: its probability is 1 whatever the score) relative to 1, the size of the terms that cancel.
double relative_error(const std::vector<double>& want, const Numbers& got) {
  double worst = 0, most = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    worst = test::worse(worst, std::abs(want[i] - static_cast<double>(got[i])));
    most = test::worse(most, std::abs(want[i]));
  }
  return worst / (most < 1e-12 ? 1 : most);
}

struct Case {
  AttentionShape n;
  const char* build;
};

class AttentionBlocks : public testing::TestWithParam<Case> {};

TEST_P(AttentionBlocks, EqualTheFormulaWithItsGradient) {
  const auto& n = GetParam().n;
  const bool wide = std::string(GetParam().build) == "avx512";
  const AttentionKernels* kernels =
      wide ? attention_detail::avx512_attention() : attention_detail::avx2_attention();
  if (!kernels) GTEST_SKIP() << "this processor has no " << GetParam().build;
  const int64_t d = n.size;
  const Numbers q = drawn_values(n.queries * d, 1), k = drawn_values(n.keys * d, 2),
                v = drawn_values(n.keys * d, 3), g = drawn_values(n.queries * d, 4);
  const auto in = [d](const Numbers& x) { return Heads{x.data(), 0, d, 0}; };
  const auto to = [d](Numbers& x) { return HeadsOut{x.data(), 0, d, 0}; };
  Numbers out(q.size()), sums(static_cast<size_t>(n.queries)), gq(q.size()), gk(k.size()), gv(v.size());
  const int64_t half = n.queries / 2;
  kernels->forward(n, in(q), in(k), in(v), {}, 0, half, to(out), sums.data());
  kernels->forward(n, in(q), in(k), in(v), {}, half, n.queries, to(out), sums.data());
  kernels->backward(n, in(q), in(k), in(v), in(out), sums.data(), in(g), {}, to(gq), to(gk), to(gv));

  const auto twice = [](const Numbers& x) { return std::vector<double>(x.begin(), x.end()); };
  std::vector<double> o(q.size()), wq(q.size()), wk(k.size()), wv(v.size());
  reference::attention_forward(n, twice(q).data(), twice(k).data(), twice(v).data(), o.data());
  reference::attention_backward(n, twice(q).data(), twice(k).data(), twice(v).data(), twice(g).data(),
                                wq.data(), wk.data(), wv.data());
  const double errors[] = {relative_error(o, out), relative_error(wq, gq), relative_error(wk, gk),
                           relative_error(wv, gv)};
  double worst = 0;
  for (const double e : errors) {
    EXPECT_LT(e, 2e-6) << GetParam().build << " " << n.queries << " x " << n.keys << " x " << d;
    worst = test::worse(worst, e);
  }
  std::printf("          worst relative error %.2g\n", worst);
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const char* build : {"avx2", "avx512"})
    for (const AttentionShape& n : {AttentionShape{200, 400, 64, 0.125},
                                    {1, 1, 1, 1},
                                    {97, 193, 40, 0.2},
                                    {6, 7, 3, 0.5},
                                    {101, 64, 128, 0.09},
                                    {192, 385, 17, 1.5},
                                    {5, 1, 64, 0.125}})
      out.push_back({n, build});
  return out;
}
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionBlocks, testing::ValuesIn(cases()));

}  // namespace
}  // namespace kinora
