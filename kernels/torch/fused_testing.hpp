// The nodes of this folder as functions with their inputs, for tests that compare them with ATen in float64.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/torch/gelu.hpp"
#include "kernels/torch/modulate.hpp"
#include "kernels/torch/norm_rope.hpp"

namespace kinora::fused {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

// A function and its inputs in float64; `fixed` are further inputs without gradient.
struct Case {
  std::string name;
  Function function;
  Tensors inputs, fixed;
};

inline Tensor drawn(at::IntArrayRef shape) { return at::randn(shape, at::kDouble); }
// The numbers of x with a channel between them, and rows apart.
inline Tensor strided(const Tensor& x) {
  const Tensor wide = at::zeros({x.size(0), x.size(1) + 1, x.size(2), 2}, x.options());
  const Tensor view = wide.narrow(1, 0, x.size(1)).select(3, 0);
  view.copy_(x);
  return view;
}

inline std::vector<Case> cases() {
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
inline Tensor waves(const Tensor& t) {
  return at::arange(t.numel(), t.options().dtype(at::kDouble))
      .mul_(0.7)
      .sin_()
      .view(t.sizes())
      .to(t.scalar_type());
}

// Values and gradients (zeros for missing ones) at `type`. Angles are at least float32, as the models' are.
inline Tensors computed(const Case& c, at::ScalarType type, at::Device device = at::kCPU) {
  Tensors in;
  for (const auto& t : c.inputs) in.push_back(t.to(device, type, false, true).set_requires_grad(true));
  Tensors all = in;
  const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
  for (const auto& t : c.fixed) all.push_back(t.to(device, wide));
  Tensors out = c.function(all);
  Tensor sum = at::zeros({}, at::TensorOptions(at::kDouble).device(device));
  for (const auto& t : out) sum = sum + (t * waves(t)).sum(at::kDouble);
  sum.backward();
  for (const auto& t : in) out.push_back(t.grad().defined() ? t.grad() : at::zeros_like(t));
  for (auto& t : out) t = t.detach();
  return out;
}

inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

}  // namespace kinora::fused
