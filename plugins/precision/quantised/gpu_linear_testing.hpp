// A linear layer of few bits by GpuLinear, on any device, against the processor's emulation, for tests.
#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kinora/aten.hpp"
#include "plugins/precision/quantised/fp8_format.hpp"
#include "plugins/precision/quantised/gpu_linear.hpp"
#include "plugins/precision/quantised/nvfp4_format.hpp"

namespace kinora::quantised {

inline std::shared_ptr<const Format> nvfp4(fp4::ScaleRule rule, bool square, bool stochastic, bool hadamard) {
  return std::make_shared<Nvfp4Format>(Nvfp4Format::Recipe{rule, rule, rule, square, stochastic, hadamard});
}
inline std::shared_ptr<const Format> fp8_format(Fp8Format::Scaling scaling, fp8::Format gradients,
                                                fp8::ScaleRule rule) {
  return std::make_shared<Fp8Format>(Fp8Format::Recipe{scaling, gradients, rule});
}

struct LinearCase {
  const char* name;
  std::shared_ptr<const Format> format;
  std::vector<int64_t> index;        // of each row's token
  std::vector<Channels> outputs;     // of the 256
  at::ScalarType type = at::kFloat;  // of x
  bool gathers = false;
  double spoil = 0;  // a value of the second sample
  bool like_x = false;
};

struct LinearNumbers {
  at::Tensor out, grad_x, grad_w;  // float64 on the CPU
  Figures figures;
};

constexpr int64_t kInputs = 128, kOutputs = 256;

// cuda null: the emulation.
inline LinearNumbers numbers_of(const LinearCase& c, const kinora_cuda_api* cuda, at::Device device) {
  at::manual_seed(11);
  const auto rows = static_cast<int64_t>(c.index.size());
  at::Tensor x = at::randn({2, rows, kInputs}), w = at::randn({kOutputs, kInputs}) * 0.1,
             g = at::randn({2, rows, kOutputs});
  for (int64_t r = 0; r < rows; ++r)
    if (c.index[static_cast<size_t>(r)] < 0) g.select(1, r).zero_(), x.select(1, r).fill_(1e6);  // padding
  if (c.spoil != 0) x[1][0][5] = c.spoil;
  x = x.to(device, c.type).set_requires_grad(true);
  w = w.to(device).set_requires_grad(true);
  LinearNumbers out;
  LowLayer layer{"layer", c.format, Group<Tensor>(), Group<Tensor>(), c.outputs, c.gathers};
  const auto tokens = std::make_shared<const Tokens>(tokens_of(c.index));
  const NoiseSource noise{0x123456789abcdef, {5, 6}};
  RoundedWeight rounded;
  std::shared_ptr<GpuWeight> rounded_there;
  const Tensor x_in = Tensor::borrow(handle(x)), w_in = Tensor::borrow(handle(w));
  const Tensor y =
      cuda ? linear_on_gpu(*cuda, layer, tokens, noise, &out.figures, x_in, w_in, c.like_x, rounded_there)
           : LowLinear::apply(std::make_shared<LowLinear>(layer, tokens, noise, &out.figures), x_in, w_in,
                              rounded);
  const at::Tensor result = borrow<at::Tensor>(y.get()), made = c.like_x ? result.to(c.type) : result;
  if (cuda && c.like_x) {
    EXPECT_EQ(result.scalar_type(), c.type);
  }
  made.backward(g.to(device, made.scalar_type()));
  const auto plain = [](const at::Tensor& t) { return t.detach().to(at::kCPU, at::kDouble); };
  out.out = plain(made), out.grad_x = plain(x.grad()), out.grad_w = plain(w.grad());
  return out;
}

// Both NaN, or closer than `bound` times the largest magnitude.
inline void expect_close(const at::Tensor& got, const at::Tensor& want, double bound, const char* what) {
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  EXPECT_TRUE(got.isnan().equal(want.isnan())) << what << ": other NaN";
  const at::Tensor off = (got - want).abs().nan_to_num(0, INFINITY, INFINITY);
  EXPECT_LE(off.max().item<double>(), bound * want.nan_to_num(0).abs().max().item<double>()) << what;
}

// bound: of float32 sums in another order; a wrong code is off by about 1e-3.
inline void expect_emulation(const LinearCase& c, const kinora_cuda_api& cuda, at::Device device,
                             double bound) {
  SCOPED_TRACE(c.name);
  const LinearNumbers want = numbers_of(c, nullptr, at::kCPU), got = numbers_of(c, &cuda, device);
  const auto tokens = tokens_of(c.index);
  for (const Run& r : tokens.runs) {
    const auto some = [&](const at::Tensor& t) { return t.narrow(1, r.row, r.count); };
    // A bfloat16 number may be rounded the other way.
    const double rounded = c.type == at::kBFloat16 ? 8e-3 : bound;
    expect_close(some(got.out), some(want.out), c.like_x ? rounded : bound, "result");
    expect_close(some(got.grad_x), some(want.grad_x), rounded, "gradient of x");
  }
  expect_close(got.grad_w, want.grad_w, bound, "gradient of w");
  for (int o = 0; o < KINORA_OPERANDS; ++o) {
    const Sums &a = got.figures.of[o], &b = want.figures.of[o];
    EXPECT_EQ(a.values, b.values) << o;
    EXPECT_EQ(a.clipped, b.clipped) << o;
    EXPECT_EQ(a.underflowed, b.underflowed) << o;
    EXPECT_NEAR(a.signal, b.signal, 1e-5 * b.signal) << o;
    EXPECT_NEAR(a.noise, b.noise, 1e-4 * b.noise) << o;
  }
}

inline std::vector<int64_t> tokens_from(int64_t first, int64_t count) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(first + i);
  return out;
}
// A rank's tokens in two pieces, the later one first, with padding.
inline std::vector<int64_t> zigzag() {
  std::vector<int64_t> out = tokens_from(384, 128);
  out.insert(out.end(), {-1, -1, -1});
  const auto first = tokens_from(128, 128);
  out.insert(out.end(), first.begin(), first.end());
  out.push_back(-1);
  return out;
}
// Channels 128 to 255 of one process, then 0 to 127.
inline std::vector<Channels> turned() { return {{0, 128, 128}, {128, 128, 0}}; }
inline std::vector<Channels> whole() { return {{0, kOutputs, 0}}; }

inline std::vector<LinearCase> linear_cases() {
  using enum fp4::ScaleRule;
  using Scaling = Fp8Format::Scaling;
  using E = fp8::Format;
  const auto some = tokens_from(0, 40);
  return {
      {"nvfp4", nvfp4(mse, true, true, true), some, whole()},
      {"nvfp4, parts", nvfp4(static_6, true, true, true), zigzag(), turned()},
      {"nvfp4, 1x16 weights", nvfp4(none, false, false, false), some, whole()},
      {"nvfp4, bfloat16, gathers", nvfp4(mse, true, true, true), some, whole(), at::kBFloat16, true},
      {"nvfp4, float64", nvfp4(mse, true, true, true), some, whole(), at::kDouble},
      {"nvfp4, an infinity", nvfp4(mse, true, true, true), some, whole(), at::kFloat, false, INFINITY},
      {"fp8 tensor", fp8_format(Scaling::tensor, E::e5m2, fp8::ScaleRule::exact), some, whole()},
      {"fp8 tensor, bfloat16 as x", fp8_format(Scaling::tensor, E::e5m2, fp8::ScaleRule::exact), some,
       whole(), at::kBFloat16, false, 0, true},
      {"nvfp4, bfloat16 as x", nvfp4(mse, true, true, true), some, whole(), at::kBFloat16, false, 0, true},
      {"fp8 tensor, parts", fp8_format(Scaling::tensor, E::e4m3, fp8::ScaleRule::exact), zigzag(), turned()},
      {"fp8 block", fp8_format(Scaling::block, E::e4m3, fp8::ScaleRule::exact), some, whole()},
      {"fp8 block, powers, parts", fp8_format(Scaling::block, E::e5m2, fp8::ScaleRule::up), zigzag(),
       turned()},
      {"mxfp8", fp8_format(Scaling::mx, E::e5m2, fp8::ScaleRule::exact), some, whole()},
      {"mxfp8, parts, a NaN", fp8_format(Scaling::mx, E::e4m3, fp8::ScaleRule::floor), zigzag(), turned(),
       at::kFloat, false, NAN},
  };
}

}  // namespace kinora::quantised
