// The loops of modulate.hpp, norm_rope.hpp and gelu.hpp against plain float64 formulas, forward and backward,
// in the AVX2 and AVX-512 builds, with every number of leftover columns of a register.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/elementwise_table.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

using elementwise_detail::ElementwiseKernels;
using Numbers = std::vector<float>;
using Doubles = std::vector<double>;
constexpr double kBound = 2e-6;  // relative to the largest number

Numbers drawn(int64_t count, unsigned seed, float size = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, size);
  Numbers out(static_cast<size_t>(count));
  for (auto& x : out) x = normal(engine);
  return out;
}
Doubles twice(const Numbers& x) { return {x.begin(), x.end()}; }
double difference(const Doubles& want, const Numbers& got) {
  double worst = 0, most = 1e-12;
  for (size_t i = 0; i < want.size(); ++i) {
    worst = test::worse(worst, std::abs(want[i] - static_cast<double>(got[i])));
    most = test::worse(most, std::abs(want[i]));
  }
  return worst / most;
}
// One row for each row of x, also if all share one.
Doubles for_rows(const Numbers& x, const RowShape& n) {
  Doubles out;
  for (int64_t i = 0; i < n.count * n.width; ++i) out.push_back(x[i % static_cast<int64_t>(x.size())]);
  return out;
}
// The sums over rows, if all share one.
Doubles summed(const Doubles& x, const RowShape& n, bool shared) {
  if (!shared) return x;
  Doubles out(static_cast<size_t>(n.width));
  for (int64_t i = 0; i < n.count * n.width; ++i) out[i % n.width] += x[i];
  return out;
}

class Elementwise : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    k = std::string(GetParam()) == "avx512" ? elementwise_detail::avx512_elementwise()
                                            : elementwise_detail::avx2_elementwise();
    if (!k) GTEST_SKIP() << "this processor has no " << GetParam();
  }
  void TearDown() override { std::printf("          worst relative error %.2g\n", worst); }
  void expect_near(const Doubles& want, const Numbers& got, const std::string& what) {
    const double off = difference(want, got);
    EXPECT_LT(off, kBound) << what;
    worst = test::worse(worst, off);
  }
  const ElementwiseKernels* k = nullptr;
  double worst = 0;
};
INSTANTIATE_TEST_SUITE_P(Builds, Elementwise, testing::Values("avx2", "avx512"));

std::vector<int64_t> widths() {
  std::vector<int64_t> out{256, 1536};
  for (int64_t w = 1; w <= 70; ++w) out.push_back(w);
  return out;
}

TEST_P(Elementwise, ModulateEqualsTheFormulaWithItsGradient) {
  for (const int64_t width : widths())
    for (const bool shared : {true, false}) {
      const RowShape n{5, width};
      const double eps =
          width < 4 ? 1e-2 : 1e-6;  // a few numbers may be nearly equal: the derivative is then unbounded
      const int64_t all = n.count * width, row = shared ? 0 : width;
      auto x = drawn(all, 1);
      for (auto& v : x) v += 3;  // a mean for which a sum of squares would lose digits
      const auto shift = drawn(shared ? width : all, 2), scale = drawn(shared ? width : all, 3),
                 g = drawn(all, 4);
      Numbers y(x.size()), stats(2 * n.count), gx(x.size()), gshift(width), gscale(scale.size());
      k->modulate_forward(n, eps, x.data(), {shift.data(), row}, {scale.data(), row}, y.data(), stats.data());
      k->modulate_backward(n, g.data(), x.data(), {scale.data(), row}, stats.data(), gx.data(), gshift.data(),
                           gscale.data());
      Doubles wy(x.size()), wx(x.size()), wscale(x.size());
      reference::modulate_forward(n, eps, twice(x).data(), for_rows(shift, n).data(),
                                  for_rows(scale, n).data(), wy.data());
      reference::modulate_backward(n, eps, twice(g).data(), twice(x).data(), for_rows(scale, n).data(),
                                   wx.data(), wscale.data());
      const std::string at = std::to_string(width) + (shared ? " shared" : " of rows");
      expect_near(wy, y, "y " + at);
      if (width > 2) {  // two numbers always become -1 and 1
        expect_near(wx, gx, "x " + at);
        expect_near(summed(wscale, n, shared), gscale, "scale " + at);
      }
      expect_near(summed(twice(g), n, true), gshift, "shift " + at);
    }
}

TEST_P(Elementwise, GateEqualsTheFormulaWithItsGradient) {
  for (const int64_t width : widths())
    for (const bool shared : {true, false}) {
      const RowShape n{4, width};
      const int64_t all = n.count * width, row = shared ? 0 : width;
      const auto x = drawn(all, 1), y = drawn(all, 2), g = drawn(all, 3),
                 gate = drawn(shared ? width : all, 4);
      Numbers out(x.size()), gy(x.size()), ggate(gate.size());
      k->gate_forward(n, x.data(), y.data(), {gate.data(), row}, out.data());
      k->gate_backward(n, g.data(), y.data(), {gate.data(), row}, gy.data(), ggate.data());
      Doubles wout = twice(x), wy = twice(g), wgate = twice(g);
      const auto each = for_rows(gate, n);
      for (size_t i = 0; i < x.size(); ++i) {
        wout[i] += each[i] * static_cast<double>(y[i]);
        wy[i] *= each[i];
        wgate[i] *= static_cast<double>(y[i]);
      }
      const std::string at = std::to_string(width) + (shared ? " shared" : " of rows");
      expect_near(wout, out, "out " + at);
      expect_near(wy, gy, "y " + at);
      expect_near(summed(wgate, n, shared), ggate, "gate " + at);
    }
}

// Heads are apart, as in a fused projection, and the numbers between them must not change.
TEST_P(Elementwise, NormRopeEqualsTheFormulaWithItsGradient) {
  for (int64_t size = 2; size <= 140; size += 2)
    for (const int form :
         {0, 1, 2, 3, 4}) {  // norm and halves, norm and neighbours, norm, halves, neighbours
      const HeadShape n{3, 2, size};
      const bool norm = form < 3, turns = form != 2, neighbours = form == 1 || form == 4;
      const int64_t all = n.tokens * n.heads * size, head = size + 3, row = 2 * head + 1;
      const auto x = drawn(n.tokens * row, 1), g = drawn(all, 2), w = drawn(size, 3),
                 angle = drawn(n.tokens * size / 2, 4, 3);
      Numbers cos, sin;
      for (const float a : angle) cos.push_back(std::cos(a)), sin.push_back(std::sin(a));
      const Turn turn{turns ? cos.data() : nullptr, sin.data(), size / 2, neighbours};
      const float* weight = norm ? w.data() : nullptr;
      Numbers y(all), rms(n.tokens * n.heads), gx(x.size(), 7), gw(size);
      k->norm_rope_forward(n, 1e-6, {x.data(), row, head}, weight, turn, {y.data(), 2 * size, size},
                           rms.data());
      k->norm_rope_backward(n, {g.data(), 2 * size, size}, {x.data(), row, head}, weight, turn, rms.data(),
                            {gx.data(), row, head}, gw.data());
      Numbers dense, gx_dense;
      for (int64_t i = 0; i < n.tokens * row; ++i) {
        const int64_t h = i % row / head, c = i % row % head;
        if (h < n.heads && c < size)
          dense.push_back(x[i]), gx_dense.push_back(gx[i]);
        else
          EXPECT_EQ(gx[i], 7);
      }
      const auto wcos = twice(cos), wsin = twice(sin), ww = twice(w);
      const reference::Turn wturn{turns ? wcos.data() : nullptr, wsin.data(), neighbours};
      Doubles wy(all), wx(all), wgw(size);
      reference::norm_rope_forward(n, 1e-6, twice(dense).data(), norm ? ww.data() : nullptr, wturn,
                                   wy.data());
      reference::norm_rope_backward(n, 1e-6, twice(g).data(), twice(dense).data(), norm ? ww.data() : nullptr,
                                    wturn, wx.data(), wgw.data());
      const std::string at = std::to_string(size) + " form " + std::to_string(form);
      expect_near(wy, y, "y " + at);
      expect_near(wx, gx_dense, "x " + at);
      if (norm) expect_near(wgw, gw, "weight " + at);
    }
}

TEST_P(Elementwise, GeluEqualsTheFormulaWithItsGradient) {
  for (const int64_t width : widths())
    for (const Gelu form : {Gelu::exact, Gelu::tanh})
      for (const bool biased : {true, false}) {
        const RowShape n{3, width};
        const auto x = drawn(n.count * width, 1, 2), g = drawn(n.count * width, 2), b = drawn(width, 3);
        const float* bias = biased ? b.data() : nullptr;
        Numbers y(x.size()), gx = g, gb(width);
        k->gelu_forward(n, form, x.data(), bias, y.data());
        k->gelu_backward(n, form, gx.data(), x.data(), bias, gx.data(), gb.data());
        Doubles wy, wx;
        for (size_t i = 0; i < x.size(); ++i) {
          const double z = static_cast<double>(x[i]) + (biased ? static_cast<double>(b[i % width]) : 0);
          wy.push_back(reference::gelu(form, z));
          wx.push_back(static_cast<double>(g[i]) * reference::gelu_slope(form, z));
        }
        const std::string at = std::to_string(width) + (form == Gelu::exact ? " exact" : " tanh");
        expect_near(wy, y, "y " + at);
        expect_near(wx, gx, "x " + at);
        if (biased) expect_near(summed(wx, n, true), gb, "bias " + at);
      }
}

// From the smallest number to the limit of float32, to see a polynomial beyond its interval.
TEST_P(Elementwise, GeluIsWithinAFewUnitsOfTheArgumentEverywhere) {
  Numbers x;
  for (float v = 1e-30f; v < 1e30f; v *= 1.001f) x.push_back(v), x.push_back(-v);
  Numbers y(x.size()), slope(x.size()), one(x.size(), 1);
  const RowShape n{1, static_cast<int64_t>(x.size())};
  for (const Gelu form : {Gelu::exact, Gelu::tanh}) {
    k->gelu_forward(n, form, x.data(), nullptr, y.data());
    k->gelu_backward(n, form, one.data(), x.data(), nullptr, slope.data(), nullptr);
    for (size_t i = 0; i < x.size(); ++i) {
      const double z = static_cast<double>(x[i]), size = std::abs(z);
      const double off = std::abs(static_cast<double>(y[i]) - reference::gelu(form, z)) / size;
      const double off_slope = std::abs(static_cast<double>(slope[i]) - reference::gelu_slope(form, z));
      ASSERT_LT(off, 2.5e-7) << x[i];
      ASSERT_LT(off_slope, 8e-7) << x[i];
      worst = test::worse(worst, test::worse(off, off_slope));
    }
  }
}

TEST_P(Elementwise, RowsAreSummedInTheirOrder) {
  const RowShape n{7, 37};
  const auto x = drawn(n.count * n.width, 1);
  Numbers out(n.width), want(n.width);
  k->sum_rows(n, x.data(), out.data());
  for (int64_t i = 0; i < n.count * n.width; ++i) want[i % n.width] += x[i];
  EXPECT_EQ(out, want);
}

}  // namespace
}  // namespace kinora
