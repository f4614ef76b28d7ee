// Attention in FP8 on any device against the emulation: float64 attention of the rounded heads, whose
// gradients pass the rounding as they are.
#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/torch/fp8_attention.hpp"

namespace kinora::fp8_attention {

struct Case {
  int64_t B, G, S, L, H, d;
  at::ScalarType type = at::kFloat;
};
inline std::vector<Case> cases() {
  return {{1, 1, 130, 70, 3, 128}, {2, 1, 70, 40, 2, 64}, {2, 3, 24, 33, 3, 64, at::kBFloat16}};
}

// Each head's numbers of another size, as far as floats allow; scores stay of one size.
inline at::Tensor drawn(int64_t batch, int64_t rows, const Case& c, double step) {
  return at::randn({batch, rows, c.H, c.d}) * at::pow(step, at::arange(c.H)).view({1, 1, c.H, 1});
}
inline at::Tensor factor_of(const at::Tensor& x, const Case& c) {
  return 448 / x.abs().unflatten(0, {c.B, c.G}).amax({1, 2, 4}).view({c.B, 1, c.H, 1});
}
inline at::Tensor rounded(const at::Tensor& x, const at::Tensor& factor, const Case& c) {
  const auto by = factor.repeat_interleave(c.G, 0);
  return (x * by).to(at::kFloat8_e4m3fn).to(at::kFloat) / by;
}
// The worst head's error relative to its numbers.
inline double off(const at::Tensor& got, const at::Tensor& want) {
  const auto size = [](const at::Tensor& x) {
    return at::linalg_vector_norm(x, 2, at::IntArrayRef{0, 1, 3});
  };
  const auto plain = got.detach().to(at::kCPU, at::kDouble);
  return (size(plain - want) / size(want)).max().item<double>();
}

// An E4M3 number is off by 2.6 % in the root mean square, an E5M2 number by 5.2 %.
struct Bounds {
  double out, gradient;
};
constexpr Bounds kBlackwell{0.03, 0.1};  // softmax E4M3; gradients of result and scores E5M2
constexpr Bounds kHopper{0.045, 0.015};  // softmax and result E4M3; bfloat16 gradients
inline void expect_emulation(const Case& c, gpu::Fp8Attention& fp8, at::Device device, const Bounds& most) {
  SCOPED_TRACE(testing::Message() << c.B << " " << c.G << " " << c.S << " " << c.L << " " << c.H << " "
                                  << c.d);
  at::manual_seed(7);
  const double scale = 1 / std::sqrt(static_cast<double>(c.d));
  const std::vector<at::Tensor> given{drawn(c.B * c.G, c.S, c, 256), drawn(c.B * c.G, c.L, c, 1.0 / 256),
                                      drawn(c.B * c.G, c.L, c, 4096)};
  const at::Tensor weight = drawn(c.B * c.G, c.S, c, 1.0 / 64);
  std::vector<at::Tensor> in, exact, factors;
  for (const at::Tensor& x : given) {
    factors.push_back(factor_of(x, c));
    const at::Tensor low = rounded(x, factors.back(), c);
    in.push_back(low.to(device, c.type).set_requires_grad(true));
    exact.push_back(low.to(at::kDouble).set_requires_grad(true));
    factors.back() = factors.back().to(device);
  }
  const at::Tensor got = fp8.attend(in[0], in[1], in[2], {factors[0], factors[1], factors[2]}, scale);
  ASSERT_TRUE(got.defined());
  EXPECT_EQ(got.scalar_type(), c.type);
  const at::Tensor p = at::softmax(at::einsum("bqhd,bkhd->bhqk", {exact[0], exact[1]}) * scale, -1),
                   want = at::einsum("bhqk,bkhd->bqhd", {p, exact[2]});
  EXPECT_LT(off(got, want.detach()), most.out);
  const auto g = torch::autograd::grad({got}, in, {weight.to(device, c.type)}),
             w = torch::autograd::grad({want}, exact, {weight.to(at::kDouble)});
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(g[i].scalar_type(), c.type);
    EXPECT_LT(off(g[i], w[i]), most.gradient) << i;
  }
}

}  // namespace kinora::fp8_attention
