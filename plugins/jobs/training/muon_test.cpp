// optimizer/muon against the singular value decomposition, and its states.
#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/training/optimizer_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using at::Tensor;
using test::leaf_of;
using test::parameter;
using testing::HasSubstr;

constexpr double kRate = 0.1, kDecay = 0.3, kMomentum = 0.8;

class Muon : public test::BuiltOptimizer {
 public:
  Muon(const Parameters& parameters, std::vector<Leaf>& leaves, json given = json::object())
      : BuiltOptimizer("optimizer/muon", more(std::move(given)), parameters, leaves, kDecay) {}

 private:
  static json more(json given) {
    given["momentum"] = kMomentum;
    return given;
  }
};

// Rounds of the polynomial on the singular values alone: matrices appear in the decomposition only.
Tensor orthogonal(const Tensor& x, int iterations) {
  const auto [u, s, v] = at::linalg_svd(x, /*full_matrices=*/false);
  Tensor values = s / s.square().sum().sqrt();
  for (int i = 0; i < iterations; ++i)
    values = 3.4445 * values - 4.7750 * values.pow(3) + 2.0315 * values.pow(5);
  return at::matmul(u * values, v);
}

double farthest(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

struct Case {
  std::vector<int64_t> shape, parts;  // parts: rows of the fused parts
  bool rms, nesterov;
  int iterations;
};

// Several steps of w [m, n] by the definition.
Tensor expected(Tensor w, const std::vector<Tensor>& gradients, const Case& c) {
  Tensor m = at::zeros_like(w);
  for (const Tensor& g : gradients) {
    m = kMomentum * m + (1 - kMomentum) * g;
    std::vector<Tensor> changes;
    const Tensor ahead = c.nesterov ? kMomentum * m + (1 - kMomentum) * g : m;
    for (const Tensor& d : ahead.split_with_sizes(c.parts)) {
      const auto rows = static_cast<double>(d.size(0)), columns = static_cast<double>(d.size(1));
      const double factor =
          c.rms ? 0.2 * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, rows / columns));
      changes.push_back(factor * orthogonal(d, c.iterations));
    }
    w = w - kRate * kDecay * w - kRate * at::cat(changes);
  }
  return w;
}

TEST(MuonOptimizer, EqualsItsDefinitionForWideTallAndFusedMatrices) {
  at::manual_seed(5);
  for (const Case& c : {Case{{6, 9}, {6}, true, true, 5}, Case{{11, 4}, {11}, false, true, 5},
                        Case{{12, 5}, {4, 4, 4}, true, false, 5}, Case{{7, 7}, {7}, false, false, 2}}) {
    Parameters parameters{parameter("w", c.shape, KINORA_ROLE_COLUMN)};
    parameters[0].parts = c.parts;
    std::vector<Leaf> leaves{leaf_of(parameters, 1, at::randn(c.shape, at::kDouble))};
    const Tensor start = leaves[0].tensor.detach().clone();
    Muon muon(
        parameters, leaves,
        {{"scale", c.rms ? "rms" : "original"}, {"nesterov", c.nesterov}, {"iterations", c.iterations}});
    std::vector<Tensor> gradients;
    for (int step = 0; step < 3; ++step) {
      gradients.push_back(at::randn(c.shape, at::kDouble));
      leaves[0].tensor.mutable_grad() = gradients.back() * 2;
      muon.step(kRate, 0.5);
    }
    EXPECT_LT(farthest(leaves[0].tensor.detach(), expected(start, gradients, c)), 1e-9) << c.shape[0];
    EXPECT_FALSE(muon.state(1)[0].defined()) << "a matrix has no second moment";
  }
}

TEST(MuonOptimizer, ChangesEverythingElseAsAdamWDoes) {
  const Parameters parameters{parameter("table", {5, 4}, KINORA_ROLE_TABLE), parameter("head", {3, 4}),
                              parameter("bias", {4}, KINORA_ROLE_COLUMN),
                              parameter("gain", {1, 4}, KINORA_ROLE_COLUMN)};
  std::vector<Leaf> one, two;
  for (kinora_param id = 1; id <= 4; ++id) {
    const Tensor start = at::randn(parameters[static_cast<size_t>(id - 1)].shape);
    one.push_back(leaf_of(parameters, id, start.clone()));
    two.push_back(leaf_of(parameters, id, start.clone()));
  }
  Muon muon(parameters, one);
  test::AdamW adamw(parameters, two, {.beta2 = 0.99, .weight_decay = kDecay});
  for (int step = 0; step < 2; ++step) {
    for (size_t i = 0; i < one.size(); ++i)
      one[i].tensor.mutable_grad() = two[i].tensor.mutable_grad() = at::randn_like(one[i].tensor.detach());
    muon.step(kRate);
    adamw.step(kRate);
  }
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i].tensor, two[i].tensor)) << i;
}

// A matrix and a bias in one flat leaf, as FSDP makes it, with an average.
TEST(MuonOptimizer, InAFlatLeafStepsAsInItsOwn) {
  const Parameters parameters{parameter("w", {4, 6}, KINORA_ROLE_ROW), parameter("bias", {5})};
  std::vector<Leaf> apart{leaf_of(parameters, 1, at::randn({4, 6})), leaf_of(parameters, 2, at::randn({5}))};
  const auto joined = [](const Tensor& a, const Tensor& b) {
    return at::cat({a.detach().flatten(), b.detach()});
  };
  std::vector<Leaf> flat{{"w .. bias",
                          joined(apart[0].tensor, apart[1].tensor).set_requires_grad(true),
                          false,
                          true,
                          {{1, 0, 24, 0}, {2, 0, 5, 24}}}};
  Muon a(parameters, apart), f(parameters, flat);
  Ema of_a(apart, 0.5), of_f(flat, 0.5);
  for (int step = 0; step < 3; ++step) {
    for (auto& leaf : apart) leaf.tensor.mutable_grad() = at::randn_like(leaf.tensor.detach());
    flat[0].tensor.mutable_grad() = joined(apart[0].tensor.grad(), apart[1].tensor.grad());
    a.step(kRate, 1, {&of_a});
    f.step(kRate, 1, {&of_f});
  }
  EXPECT_TRUE(at::equal(flat[0].tensor, joined(apart[0].tensor, apart[1].tensor)));
  EXPECT_TRUE(at::equal(of_f.values()[0], joined(of_a.values()[0], of_a.values()[1])));

  NamedTensors saved;
  for (size_t i = 0; i < 2; ++i)
    for (const auto& [name, t] : assemble(parameters, apart, a.state(i)))
      saved[a.names()[i] + "." + name] = t;
  EXPECT_EQ(saved.size(), 3u) << "first.w, first.bias, second.bias";
  Muon again(parameters, flat);
  again.restore(saved);
  EXPECT_TRUE(at::equal(again.state(0)[0], f.state(0)[0]));
  EXPECT_TRUE(at::equal(again.state(1)[0], f.state(1)[0]));
  saved["third.w"] = at::zeros({4, 6});
  EXPECT_THAT(test::refusal([&] { again.restore(saved); }),
              HasSubstr("'third.w', which is not a state of optimizer/muon"));
}

}  // namespace
}  // namespace kinora::core
