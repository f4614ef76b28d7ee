// The mathematics of the CUDA kernels' rows, by a team of one thread in float64, against the formulas written
// out here and, for gradients, against their central differences.
#include <functional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/gated_row.hpp"
#include "kernels/cuda/gelu_row.hpp"
#include "kernels/cuda/modulate_row.hpp"
#include "kernels/cuda/norm_rope_row.hpp"

namespace kinora::cuda {
namespace {

using Row = std::vector<double>;

Row drawn(int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Row out(static_cast<size_t>(n));
  for (double& x : out) x = normal(random);
  return out;
}

double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void expect_near(const Row& got, const Row& want, double bound) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], bound) << "number " << i;
}

// The gradient of f at x.
Row differences(const std::function<double(const Row&)>& f, Row x) {
  constexpr double h = 1e-5;
  Row out;
  for (double& at : x) {
    const double before = at;
    at = before + h;
    const double above = f(x);
    at = before - h;
    out.push_back((above - f(x)) / (2 * h));
    at = before;
  }
  return out;
}

constexpr double kEps = 1e-6;

Row modulated(const Row& x, const Row& scale, const Row& shift) {
  const auto D = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (const double v : x) mean += v / D;
  for (const double v : x) variance += (v - mean) * (v - mean) / D;
  Row y;
  for (size_t i = 0; i < x.size(); ++i)
    y.push_back((x[i] - mean) / std::sqrt(variance + kEps) * (1 + scale[i]) + shift[i]);
  return y;
}

template <int N>
void check_modulate(int64_t D) {
  SCOPED_TRACE(testing::Message() << D << " channels by " << N);
  Row x = drawn(D, 1);
  const Row scale = drawn(D, 2), shift = drawn(D, 3), grad = drawn(D, 4);
  for (double& v : x) v += 100;
  Row y(x.size()), grad_x(x.size());
  double mean = 0, rstd = 0;
  modulate_row<N>(Alone(), x.data(), scale.data(), shift.data(), D, kEps, y.data(), &mean, &rstd);
  expect_near(y, modulated(x, scale, shift), 1e-11);
  modulate_row_backward<N>(Alone(), grad.data(), x.data(), scale.data(), D, mean, rstd, grad_x.data());
  expect_near(grad_x, differences([&](const Row& at) { return dot(grad, modulated(at, scale, shift)); }, x),
              1e-6);
  Row grad_scale, grad_shift;
  for (size_t i = 0; i < x.size(); ++i) {
    double sums[2] = {};
    add_modulate_terms(grad[i], x[i], mean, rstd, sums);
    grad_scale.push_back(sums[0]), grad_shift.push_back(sums[1]);
  }
  expect_near(grad_scale,
              differences([&](const Row& at) { return dot(grad, modulated(x, at, shift)); }, scale), 1e-6);
  expect_near(grad_shift,
              differences([&](const Row& at) { return dot(grad, modulated(x, scale, at)); }, shift), 1e-6);
}

TEST(ModulateRow, EqualsTheFormulaAndItsDifferences) {
  for (const int64_t D : {1, 2, 7, 24}) check_modulate<1>(D);
  for (const int64_t D : {4, 24, 256}) check_modulate<2>(D);
}

Row gated(const Row& x, const Row& y, const Row& gate) {
  Row out;
  for (size_t i = 0; i < x.size(); ++i) out.push_back(x[i] + gate[i] * y[i]);
  return out;
}

template <int N>
void check_gated(int64_t D) {
  SCOPED_TRACE(testing::Message() << D << " channels by " << N);
  const Row x = drawn(D, 1), y = drawn(D, 2), gate = drawn(D, 3), grad = drawn(D, 4);
  Row out(x.size()), grad_y(x.size()), grad_gate;
  gated_row<N, double>(Alone(), x.data(), y.data(), gate.data(), D, out.data());
  expect_near(out, gated(x, y, gate), 1e-15);
  gated_row_backward<N, double>(Alone(), grad.data(), gate.data(), D, grad_y.data());
  expect_near(grad_y, differences([&](const Row& at) { return dot(grad, gated(x, at, gate)); }, y), 1e-6);
  for (size_t i = 0; i < x.size(); ++i) {
    double sums[1] = {};
    add_gate_term(grad[i], y[i], sums);
    grad_gate.push_back(sums[0]);
  }
  expect_near(grad_gate, differences([&](const Row& at) { return dot(grad, gated(x, y, at)); }, gate), 1e-6);
}

TEST(GatedRow, EqualsTheFormulaAndItsDifferences) {
  for (const int64_t D : {1, 7, 24}) check_gated<1>(D);
  for (const int64_t D : {2, 24}) check_gated<2>(D);
}

// The normal distribution function by Simpson's rule from 0, so independent of std::erf; tanh by
// exponentials.
double gelu_at(double u, bool exact) {
  if (!exact) {
    const double v = std::sqrt(2 / std::acos(-1.0)) * (u + 0.044715 * u * u * u);
    return u / (1 + std::exp(-2 * v));
  }
  constexpr int kSteps = 2000;
  const double h = u / kSteps;
  const auto density = [](double t) { return std::exp(-t * t / 2) / std::sqrt(2 * std::acos(-1.0)); };
  double sum = density(0) + density(u);
  for (int i = 1; i < kSteps; ++i) sum += (i % 2 ? 4 : 2) * density(i * h);
  return u * (0.5 + sum * h / 3);
}
Row gelu_of_sum(const Row& x, const Row& bias, bool exact) {
  Row y;
  for (size_t i = 0; i < x.size(); ++i) y.push_back(gelu_at(x[i] + bias[i], exact));
  return y;
}

template <int N>
void check_gelu(int64_t D, bool exact) {
  SCOPED_TRACE(testing::Message() << D << " channels by " << N << (exact ? ", exact" : ", tanh"));
  Row x = drawn(D, 1);
  const Row bias = drawn(D, 2), grad = drawn(D, 3);
  for (double& v : x) v *= 2;
  Row y(x.size()), grad_x(x.size());
  gelu_row<N, double>(Alone(), exact, x.data(), bias.data(), D, y.data());
  expect_near(y, gelu_of_sum(x, bias, exact), 1e-11);
  gelu_row_backward<N, double>(Alone(), exact, grad.data(), x.data(), bias.data(), D, grad_x.data());
  expect_near(grad_x, differences([&](const Row& at) { return dot(grad, gelu_of_sum(at, bias, exact)); }, x),
              1e-6);
}

TEST(GeluRow, EqualsTheFormulaAndItsDifferences) {
  for (const bool exact : {true, false}) {
    for (const int64_t D : {1, 7, 24}) check_gelu<1>(D, exact);
    check_gelu<2>(24, exact);
  }
}

// Pairs of halves or of neighbours; without angles: no rotation; without a weight: no norm.
Row turned(const Row& x, const Row& weight, const Row& angle, bool halves) {
  const size_t d = x.size();
  double squares = 0;
  for (const double v : x) squares += v * v / static_cast<double>(d);
  Row u, y(d);
  for (size_t i = 0; i < d; ++i)
    u.push_back(weight.empty() ? x[i] : x[i] / std::sqrt(squares + kEps) * weight[i]);
  for (size_t i = 0; i < d / 2; ++i) {
    const size_t a = halves ? i : 2 * i, b = halves ? i + d / 2 : 2 * i + 1;
    const double by = angle.empty() ? 0 : angle[i];
    y[a] = u[a] * std::cos(by) - u[b] * std::sin(by);
    y[b] = u[b] * std::cos(by) + u[a] * std::sin(by);
  }
  return y;
}

void check_norm_rope(int64_t d, bool halves, bool turns) {
  SCOPED_TRACE(testing::Message() << d << (halves ? " halves" : " pairs") << (turns ? "" : ", no turn"));
  constexpr int kMost = 64;
  const Row x = drawn(d, 5), weight = drawn(d, 6), grad = drawn(d, 7),
            angle = turns ? drawn(d / 2, 8) : Row();
  Row cos, sin, y(x.size()), grad_x(x.size());
  for (const double a : angle) cos.push_back(std::cos(a)), sin.push_back(std::sin(a));
  const double *c = turns ? cos.data() : nullptr, *s = turns ? sin.data() : nullptr;
  double rstd = 0, sums[2 * kMost] = {};
  norm_rope_row(Alone(), x.data(), weight.data(), c, s, d, halves, kEps, y.data(), &rstd);
  expect_near(y, turned(x, weight, angle, halves), 1e-13);
  norm_rope_row_backward<kMost>(Alone(), grad.data(), x.data(), weight.data(), c, s, d, halves, rstd,
                                grad_x.data(), sums);
  expect_near(grad_x,
              differences([&](const Row& at) { return dot(grad, turned(at, weight, angle, halves)); }, x),
              1e-6);
  Row grad_weight(x.size());
  for (int64_t i = 0; i < d / 2; ++i) {
    const Pair at = pair_of(i, d, halves);
    grad_weight[static_cast<size_t>(at.a)] = sums[2 * i];
    grad_weight[static_cast<size_t>(at.b)] = sums[2 * i + 1];
  }
  expect_near(grad_weight,
              differences([&](const Row& at) { return dot(grad, turned(x, at, angle, halves)); }, weight),
              1e-6);
}

// Without a weight neither x nor 1 / rms is read in the backward.
TEST(NormRopeRow, OnlyTurnsWithoutAWeight) {
  constexpr int64_t d = 6;
  constexpr const double* kNone = nullptr;
  const Row x = drawn(d, 1), angle = drawn(d / 2, 2), grad = drawn(d, 3);
  Row cos, sin, y(d), grad_x(d);
  for (const double a : angle) cos.push_back(std::cos(a)), sin.push_back(std::sin(a));
  for (const bool halves : {true, false}) {
    norm_rope_row(Alone(), x.data(), kNone, cos.data(), sin.data(), d, halves, kEps, y.data(),
                  static_cast<double*>(nullptr));
    expect_near(y, turned(x, {}, angle, halves), 1e-13);
    double sums[6] = {};
    norm_rope_row_backward<3>(Alone(), grad.data(), kNone, kNone, cos.data(), sin.data(), d, halves, 0.0,
                              grad_x.data(), sums);
    expect_near(grad_x,
                differences([&](const Row& at) { return dot(grad, turned(at, {}, angle, halves)); }, x),
                1e-6);
    for (const double sum : sums) EXPECT_EQ(sum, 0);
  }
}

TEST(NormRopeRow, EqualsTheFormulaAndItsDifferences) {
  for (const int64_t d : {2, 6, 64, 128})
    for (const bool halves : {true, false})
      for (const bool turns : {true, false}) check_norm_rope(d, halves, turns);
}

// Rows of two microbatches: the second continues the sums of the first.
TEST(NormRopeRow, AddsToTheSumsOfTheWeight) {
  constexpr int64_t d = 4;
  const Row x = drawn(d, 1), weight = drawn(d, 2), grad = drawn(d, 3);
  Row grad_x(d);
  double once[4] = {}, twice[4] = {};
  const auto add = [&](double(&to)[4]) {
    norm_rope_row_backward<2>(Alone(), grad.data(), x.data(), weight.data(), static_cast<double*>(nullptr),
                              static_cast<double*>(nullptr), d, true, 0.5, grad_x.data(), to);
  };
  add(once);
  add(twice);
  add(twice);
  for (int i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(twice[i], 2 * once[i]);
}

}  // namespace
}  // namespace kinora::cuda
