// bfloat16 has 8 bits of significand: an operand's rounding error is at most 2^-8 of it, and no other error
// is allowed.
#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/tensors/device.hpp"
#include "kinora/abi/precision.h"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "tests/support/plugins.hpp"

namespace kinora {
namespace {

using at::Tensor;
constexpr kinora_param kWeight = 1, kBias = 2;

// The end of a chain: one weight, one bias, plain attention; linear() must not be reached.
struct End : Link<Tensor> {
  Tensor weight, bias;
  End() : Link(KINORA_LEVEL_BASE) {}
  kinora_param parameter(const kinora_param_spec& s) override { return s.ndim == 2 ? kWeight : kBias; }
  Tensor value(kinora_param p) override { return p == kWeight ? weight : bias; }
  Tensor linear(const Tensor&, kinora_param, kinora_param, kinora_seq) override {
    throw Error(KINORA_ERROR_FAILED, "the precision link must do the product itself");
  }
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const kinora_attention& how) override {
    seen = q.scalar_type();
    const Tensor s = at::matmul(q.transpose(1, 2) * how.scale, k.permute({0, 2, 3, 1}));
    return at::matmul(s.softmax(-1), v.transpose(1, 2)).transpose(1, 2);
  }
  at::ScalarType seen = at::kDouble;
};

// A chain of two: the precision's link over End. `above` represents links that provide another weight than
// the base has.
struct Bf16 : test::Instance<kinora_precision> {
  End end, above;
  kinora_chain chain{};
  const kinora_link* link = nullptr;
  explicit Bf16(const core::json& options = core::json::object()) : Instance("precision/bf16", options) {
    at::manual_seed(5);
    end.weight = at::randn({24, 32}) / std::sqrt(32.0);
    end.bias = at::randn({24});
    above.weight = end.weight.clone().set_requires_grad(true);
    above.bias = end.bias.clone().set_requires_grad(true);
    check((*this)->link(self(), &link));
    chain.struct_size = sizeof chain;
    chain.next = end.get()->context;
    chain.head = above.get()->context;
    check(link->bind(link->context->self, &chain));
  }
  Context<Tensor> context() const { return Context<Tensor>(link->context); }
  void declare(uint32_t role, int64_t shards) const {
    const int64_t shape[] = {24, 32};
    kinora_param_spec s{};
    s.struct_size = sizeof s;
    s.role = role;
    s.name = "w";
    s.shape = shape;
    s.ndim = 2;
    s.shards = shards;
    context().parameter(s);
  }
};

Tensor rounded(const Tensor& t) { return t.to(at::kBFloat16).to(at::kDouble); }
double worst(const Tensor& a, const Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

TEST(Bf16, LinearRoundsTheOperandsAndNothingElse) {
  const Bf16 p;
  const Tensor x = at::randn({3, 5, 32});
  const Tensor y = p.context().linear(x, kWeight, kBias, 1);
  EXPECT_EQ(y.scalar_type(), at::kFloat);
  const Tensor want = at::linear(rounded(x), rounded(p.end.weight), p.end.bias.to(at::kDouble));
  EXPECT_LT(worst(y, want), 2e-6);
  // so it differs from float32 by at most the rounding of both operands: 2 * 2^-8 of |x| |w|
  const Tensor bound = at::matmul(x.abs(), p.end.weight.abs().t()) * std::pow(2.0, -7) * 1.01 + 1e-6;
  EXPECT_TRUE(((y - at::linear(x, p.end.weight, p.end.bias)).abs() <= bound).all().item<bool>());
  EXPECT_GT(worst(y, at::linear(x, p.end.weight, p.end.bias)), 1e-4);
}

TEST(Bf16, GradientsAreFloat32SumsOfRoundedOperands) {
  const Bf16 p;
  const Tensor x = at::randn({3, 5, 32}).set_requires_grad(true), g = at::randn({3, 5, 24});
  p.context().linear(x, kWeight, kBias, 1).backward(g);
  EXPECT_LT(worst(x.grad(), at::matmul(rounded(g), rounded(p.above.weight.detach()))), 2e-6);
  const Tensor dw = at::matmul(rounded(g).reshape({15, 24}).t(), rounded(x.detach()).reshape({15, 32}));
  EXPECT_LT(worst(p.above.weight.grad(), dw), 1e-5);
  EXPECT_LT(worst(p.above.bias.grad(), g.sum(at::IntArrayRef{0, 1})), 1e-5);
  EXPECT_EQ(x.grad().scalar_type(), at::kFloat);
}

TEST(Bf16, TakesTheWeightThatTheHeadServes) {
  Bf16 p;
  const Tensor x = at::randn({2, 4, 32});
  p.above.weight = p.end.weight * 2;
  EXPECT_LT(worst(p.context().linear(x, kWeight, 0, 1), at::linear(rounded(x), rounded(p.end.weight) * 2)),
            4e-6);
}

// Partial sums of a split ROW weight: rounded to bfloat16 before their sum they would differ by up to 2^-8.
TEST(Bf16, PartialSumsStayFloat32) {
  const Bf16 whole, cut;
  whole.declare(KINORA_ROLE_ROW, 1);
  cut.declare(KINORA_ROLE_ROW, 2);
  const Tensor x = at::randn({2, 4, 32}).to(at::kBFloat16);
  EXPECT_EQ(whole.context().linear(x, kWeight, 0, 1).scalar_type(), at::kBFloat16);
  EXPECT_EQ(cut.context().linear(x, kWeight, 0, 1).scalar_type(), at::kFloat);

  Bf16 half[2];
  Tensor sum = at::zeros({2, 4, 24});
  for (int64_t i = 0; i < 2; ++i) {
    half[i].declare(KINORA_ROLE_ROW, 2);
    half[i].above.weight = whole.end.weight.narrow(1, 16 * i, 16);
    sum += half[i].context().linear(x.narrow(-1, 16 * i, 16), kWeight, 0, 1);
  }
  EXPECT_LT(worst(sum, at::linear(rounded(x), rounded(whole.end.weight))), 2e-6);
}

// libtorch looks for CUDA once, at its first use: the library must be open before the first test.
const std::string& kWhyNoGpu = core::why_no_gpu();

TEST(Bf16, TheGpusProductIsTheSame) {
  if (!kWhyNoGpu.empty()) GTEST_SKIP() << kWhyNoGpu;
  Bf16 cpu, gpu;
  for (Tensor* t : {&gpu.above.weight, &gpu.above.bias}) *t = t->detach().cuda().set_requires_grad(true);
  const Tensor x = at::randn({3, 5, 32}), g = at::randn({3, 5, 24});
  const Tensor here = cpu.context().linear(x, kWeight, kBias, 1),
               there = gpu.context().linear(x.cuda(), kWeight, kBias, 1);
  here.backward(g);
  there.backward(g.cuda());
  EXPECT_LT(worst(there.cpu(), here), 2e-6);
  EXPECT_LT(worst(gpu.above.weight.grad().cpu(), cpu.above.weight.grad()), 1e-5);
}

TEST(Bf16, AttentionSeesBfloat16AndAnswersInTheStreamsDtype) {
  const Bf16 p;
  const Tensor q = at::randn({2, 6, 3, 8}), k = at::randn({2, 7, 3, 8}), v = at::randn({2, 7, 3, 8});
  kinora_attention how{};
  how.struct_size = sizeof how;
  how.scale = 1 / std::sqrt(8.0);
  const Tensor out = p.context().attention(q, k, v, how);
  EXPECT_EQ(p.end.seen, at::kBFloat16);
  EXPECT_EQ(out.scalar_type(), at::kFloat);
  End plain;
  EXPECT_LT(worst(out, plain.attention(q, k, v, how)), 0.05);
}

TEST(Precision, QuantizeReturnsWhatAProductSees) {
  const Tensor x = at::randn({4, 8});
  for (const char* id : {"precision/fp32", "precision/bf16"}) {
    test::Instance<kinora_precision> p(id);
    kinora_tensor out[4] = {};
    check(p->quantize(p.self(), handle(x), out, 4));
    EXPECT_EQ(out[1], nullptr);
    EXPECT_EQ(out[2], nullptr);
    const Tensor codes = adopt<Tensor>(out[0]), back = adopt<Tensor>(out[3]);
    const bool fp32 = std::string(id) == "precision/fp32";
    EXPECT_EQ(codes.scalar_type(), fp32 ? at::kFloat : at::kBFloat16);
    EXPECT_EQ(back.scalar_type(), at::kFloat);
    EXPECT_EQ(worst(back, codes), 0);
    EXPECT_TRUE(((back - x).abs() <= x.abs() * (fp32 ? 0 : std::pow(2.0, -8))).all().item<bool>());
  }
}

TEST(Precision, SaysItsStream) {
  test::Instance<kinora_precision> wide("precision/bf16"), narrow("precision/bf16", {{"stream", "bfloat16"}});
  EXPECT_EQ(wide->dtype(wide.self()), KINORA_DTYPE_FLOAT32);
  EXPECT_EQ(narrow->dtype(narrow.self()), KINORA_DTYPE_BFLOAT16);
  test::Instance<kinora_precision> fp32("precision/fp32");
  EXPECT_EQ(fp32->dtype(fp32.self()), KINORA_DTYPE_FLOAT32);
  test::Instance<kinora_precision> fp64("precision/fp64");
  EXPECT_EQ(fp64->dtype(fp64.self()), KINORA_DTYPE_FLOAT64);
  const kinora_link* none = nullptr;
  check(fp32->link(fp32.self(), &none));
  EXPECT_EQ(none, nullptr);
}

}  // namespace
}  // namespace kinora
