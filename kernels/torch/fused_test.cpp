// The nodes in float32 against ATen's operations in float64, which are also their fallback: values,
// every gradient, the same bits with any number of threads.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/torch/tensors/tensors_api.hpp"
#include "kernels/torch/gelu.hpp"
#include "kernels/torch/modulate.hpp"
#include "kernels/torch/norm_rope.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

// A function and its inputs in float64; `fixed` are further inputs without gradient.
struct Case {
  std::string name;
  Function function;
  Tensors inputs, fixed;
};

Tensor drawn(at::IntArrayRef shape) { return at::randn(shape, at::kDouble); }
// The numbers of x with a channel between them, and rows apart.
Tensor strided(const Tensor& x) {
  const Tensor wide = at::zeros({x.size(0), x.size(1) + 1, x.size(2), 2}, x.options());
  const Tensor view = wide.narrow(1, 0, x.size(1)).select(3, 0);
  view.copy_(x);
  return view;
}

std::vector<Case> cases() {
  at::manual_seed(5);
  std::vector<Case> out;
  const Function modulates = [](const Tensors& t) { return Tensors{modulate(t[0], t[1], t[2], 1e-6)}; };
  const Function gates = [](const Tensors& t) { return Tensors{gated(t[0], t[1], t[2])}; };
  const int64_t B = 2, S = 131, D = 36;
  for (const auto& [name, rows] : std::map<std::string, std::vector<int64_t>>{
           {"sample", {B, 1, D}}, {"row", {B, S, D}}, {"all", {1, 1, D}}, {"row_of_all", {1, S, D}}}) {
    out.push_back({"modulate_" + name, modulates, {drawn({B, S, D}), drawn(rows), drawn(rows)}, {}});
    out.push_back({"gate_" + name, gates, {drawn({B, S, D}), drawn({B, S, D}), drawn(rows)}, {}});
  }
  out.push_back({"modulate_repeated",
                 [=](const Tensors& t) {
                   return modulates({t[0], t[1].expand({B, S, D}), t[2].expand({B, S, D})});
                 },
                 {drawn({B, S, D}), drawn({B, 1, D}), drawn({B, 1, D})},
                 {}});
  out.push_back({"modulate_strided",
                 [modulates](const Tensors& t) {
                   return modulates({strided(t[0]), strided(t[1]), strided(t[2])});
                 },
                 {drawn({B, S, D}), drawn({B, 1, D}), drawn({B, 1, D})},
                 {}});
  for (const Gelu form : {Gelu::exact, Gelu::tanh}) {
    const std::string name = form == Gelu::exact ? "gelu_exact" : "gelu_tanh";
    out.push_back({name,
                   [form](const Tensors& t) { return Tensors{kinora::gelu(t[0], {}, form)}; },
                   {drawn({B, S, D})},
                   {}});
    out.push_back({name + "_biased",
                   [form](const Tensors& t) { return Tensors{kinora::gelu(t[0], t[1], form)}; },
                   {drawn({B, S, D}), drawn({D})},
                   {}});
  }
  const int64_t G = 3, d = 20;
  for (const bool neighbours : {false, true})
    for (const int64_t batch : {1, 2}) {
      const Tensor angle = drawn({batch, S, 1, d / 2});
      const std::string name =
          std::string(neighbours ? "neighbours" : "halves") + (batch == 1 ? "" : "_apart");
      const auto rotation = [neighbours](const Tensors& t, size_t i) {
        return Rotation{t[i], t[i + 1], neighbours};
      };
      out.push_back({"norm_rope_" + name,
                     [=](const Tensors& t) { return Tensors{norm_rope(t[0], t[1], rotation(t, 2), 1e-6)}; },
                     {drawn({B, S, G, d}), drawn({d})},
                     {angle.cos(), angle.sin()}});
      out.push_back({"rope_" + name,
                     [=](const Tensors& t) { return Tensors{norm_rope(t[0], {}, rotation(t, 1), 1e-6)}; },
                     {drawn({B, S, G, d})},
                     {angle.cos(), angle.sin()}});
      out.push_back({"qkv_" + name,
                     [=](const Tensors& t) {
                       const auto made = norm_rope_qkv(t[0], t[1], t[2], rotation(t, 3), 1e-6);
                       return Tensors{made.q, made.k, made.v};
                     },
                     {drawn({B, S, G, 4, d}), drawn({d}), drawn({d})},
                     {angle.cos().unsqueeze(2), angle.sin().unsqueeze(2)}});
    }
  out.push_back({"kv",
                 [](const Tensors& t) {
                   const auto made = norm_rope_qkv(t[0], {}, t[1], {}, 1e-6);
                   EXPECT_FALSE(made.q.defined());
                   return Tensors{made.k, made.v};
                 },
                 {drawn({B, S, G, 2, d}), drawn({d})},
                 {}});
  out.push_back({"values_only_of_qkv",
                 [](const Tensors& t) { return Tensors{norm_rope_qkv(t[0], t[1], t[1], {}, 1e-6).v}; },
                 {drawn({B, S, G, 3, d}), drawn({d})},
                 {}});
  return out;
}

// Some gradient of t.
Tensor waves(const Tensor& t) {
  return at::arange(t.numel(), at::kDouble).mul_(0.7).sin_().view(t.sizes()).to(t.scalar_type());
}

// Values and gradients (zeros for missing ones) at `type`.
Tensors computed(const Case& c, at::ScalarType type) {
  Tensors in;
  for (const auto& t : c.inputs) in.push_back(t.to(type, false, true).set_requires_grad(true));
  Tensors all = in;
  for (const auto& t : c.fixed) all.push_back(t.to(type));
  Tensors out = c.function(all);
  Tensor sum = at::zeros({}, type);
  for (const auto& t : out) sum = sum + (t * waves(t)).sum();
  sum.backward();
  for (const auto& t : in) out.push_back(t.grad().defined() ? t.grad() : at::zeros_like(t));
  for (auto& t : out) t = t.detach();
  return out;
}

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Fused : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Cases, Fused, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(Fused, EqualsAtenInFloat64WithEveryGradient) {
  const auto want = computed(GetParam(), at::kDouble), got = computed(GetParam(), at::kFloat);
  double worst = 0;
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].sizes(), want[i].sizes());
    EXPECT_EQ(got[i].scalar_type(), at::kFloat);
    const double most = std::max(want[i].abs().max().item<double>(), 1e-12);
    const double off = (got[i].to(at::kDouble) - want[i]).abs().max().item<double>() / most;
    EXPECT_LT(off, 2e-6) << i;
    worst = test::worse(worst, off);
  }
  std::printf("          worst relative error %.2g\n", worst);
}

TEST_P(Fused, HasTheSameBitsAtAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto want = computed(GetParam(), at::kFloat);
  for (const int threads : {2, 3, 5}) {
    at::set_num_threads(threads);
    const auto got = computed(GetParam(), at::kFloat);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(at::equal(got[i], want[i])) << i;
  }
  at::set_num_threads(before);
}

TEST_P(Fused, KeepsNoGraphIfNoneIsWantedAndKnowsShapesWithoutNumbers) {
  const auto& c = GetParam();
  const auto on = [&](const auto& place, bool grad = false) {
    Tensors in;
    for (const auto& t : c.inputs) in.push_back(place(t).set_requires_grad(grad));
    for (const auto& t : c.fixed) in.push_back(place(t));
    return c.function(in);
  };
  core::serve_tensors();  // libkinora_torch knows layer_norm of a meta tensor
  const auto in_float = [](const Tensor& t) { return t.to(at::kFloat); };
  const auto floats = on(in_float);
  const auto metas = on([](const Tensor& t) { return t.to(at::kFloat).to(at::kMeta); });
  const at::NoGradGuard off;
  const auto quiet = on(in_float, true);
  for (size_t i = 0; i < floats.size(); ++i) {
    EXPECT_EQ(metas[i].sizes(), floats[i].sizes());
    EXPECT_FALSE(quiet[i].requires_grad());
    EXPECT_TRUE(at::equal(quiet[i], floats[i]));
  }
}

// A second derivative would be silently wrong, since the kernels' gradients have no graph.
TEST(FusedGradient, RefusesToBeDifferentiatedAgain) {
  const Tensor x = at::randn({2, 3, 8}).set_requires_grad(true);
  const Tensor first = torch::autograd::grad({kinora::gelu(x).sum()}, {x}, {}, true, true)[0];
  EXPECT_TRUE(first.requires_grad());
  try {
    first.sum().backward();
    FAIL() << "was differentiated";
  } catch (const std::exception& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("gelu has one derivative in float32"));
  }
  const Tensor y = at::randn({2, 3, 8}, at::kDouble).set_requires_grad(true);
  torch::autograd::grad({kinora::gelu(y).sum()}, {y}, {}, true, true)[0].sum().backward();
  EXPECT_TRUE(y.grad().defined());
}

}  // namespace
}  // namespace kinora
