#include <cmath>
#include <stdexcept>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"
#include "plugins/jobs/training/norms.hpp"
#include "plugins/jobs/training/optimizer_testing.hpp"
#include "plugins/jobs/training/schedule.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/worst.hpp"

namespace kinora::core {
namespace {

using test::AdamW;
using test::AdamWOptions;
using test::leaf_of;

Parameter named(const std::string& name, std::vector<int64_t> shape, bool frozen = false) {
  Parameter p = test::parameter(name, std::move(shape));
  p.frozen = frozen;
  return p;
}

// Algorithm 2 of Loshchilov and Hutter (2019), one number at a time in double.
struct Naive {
  double w, m = 0, v = 0;
  int t = 0;
  void step(double g, double lr, double decay, double b1, double b2, double eps) {
    ++t;
    w -= lr * decay * w;
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    w -= lr * (m / (1 - std::pow(b1, t))) / (std::sqrt(v / (1 - std::pow(b2, t))) + eps);
  }
};

double gradient_at(double w, int step, int64_t i) {
  return std::sin(3 * w + step) + 0.1 * static_cast<double>(i);
}

class AdamWOn : public testing::TestWithParam<at::ScalarType> {};

TEST_P(AdamWOn, EqualsTheAlgorithmInDouble) {
  const Parameters parameters{named("w", {5, 7}), named("bias", {11}), named("fixed", {3}, true)};
  std::vector<Leaf> leaves;
  for (kinora_param id = 1; id <= 3; ++id)
    leaves.push_back(
        leaf_of(parameters, id, at::randn(parameters[static_cast<size_t>(id - 1)].shape, GetParam())));
  AdamWOptions o;
  o.beta1 = 0.8, o.beta2 = 0.95, o.eps = 1e-6, o.weight_decay = 0.3;
  AdamW adam(parameters, leaves, o);
  std::vector<std::vector<Naive>> naive;
  for (const auto& l : leaves) {
    const auto flat = l.tensor.detach().to(at::kDouble).flatten();
    auto& list = naive.emplace_back();
    for (int64_t i = 0; i < flat.numel(); ++i) list.push_back({flat[i].item<double>()});
  }
  const auto fixed = leaves[2].tensor.clone();
  for (int step = 0; step < 20; ++step) {
    const double lr = 0.05 / (1 + step);
    for (size_t k = 0; k < 2; ++k) {
      auto g = at::empty_like(leaves[k].tensor.detach()).flatten();
      for (int64_t i = 0; i < g.numel(); ++i) {
        auto& n = naive[k][static_cast<size_t>(i)];
        const double grad = gradient_at(n.w, step, i);
        g[i] = grad;
        n.step(GetParam() == at::kFloat ? static_cast<float>(grad) : grad, lr, k == 0 ? 0.3 : 0, 0.8, 0.95,
               1e-6);
      }
      leaves[k].tensor.mutable_grad() = g.view(leaves[k].tensor.sizes());
    }
    adam.step(lr);
    adam.zero_grad();
    EXPECT_FALSE(leaves[0].tensor.grad().defined());
  }
  for (size_t k = 0; k < 2; ++k)
    for (size_t i = 0; i < naive[k].size(); ++i)
      EXPECT_NEAR(leaves[k].tensor.detach().flatten()[static_cast<int64_t>(i)].item<double>(), naive[k][i].w,
                  GetParam() == at::kFloat ? 3e-6 : 1e-14)
          << k << " " << i;
  EXPECT_TRUE(at::equal(leaves[2].tensor, fixed));
  EXPECT_FALSE(adam.state(0)[2].defined());
  EXPECT_EQ(adam.steps(), 20);
}
INSTANTIATE_TEST_SUITE_P(Dtypes, AdamWOn, testing::Values(at::kDouble, at::kFloat));

// The component's own defaults. From w = 0 and without decay all of a weight is changes, so that those of gradients far
// below eps are compared to their last digits too.
TEST_P(AdamWOn, AtItsDefaultsEqualsTheAlgorithmFromTinyGradientsToLarge) {
  constexpr int64_t n = 17;  // of sizes 1e-14 to 1e2
  const Parameters parameters{named("w", {n})};
  std::vector<Leaf> leaves{leaf_of(parameters, 1, at::zeros({n}, GetParam()))};
  test::BuiltOptimizer adam("optimizer/adamw", json::object(), parameters, leaves, 0);
  std::vector<Naive> naive(n, Naive{0});
  std::vector<double> path(n);
  for (int step = 0; step < 6; ++step) {
    const at::Tensor g = at::empty({n}, at::kDouble);
    for (int64_t i = 0; i < n; ++i)
      g[i] = std::pow(10, i - 14) * (2 + std::sin(step + 0.3 * static_cast<double>(i)));
    leaves[0].tensor.mutable_grad() = g.to(GetParam());
    adam.step(0.05);
    for (size_t i = 0; i < naive.size(); ++i) {
      const double before = naive[i].w;
      naive[i].step(leaves[0].tensor.grad()[static_cast<int64_t>(i)].item<double>(), 0.05, 0, 0.9, 0.99,
                    1e-8);
      path[i] += std::abs(naive[i].w - before);
    }
  }
  for (size_t i = 0; i < naive.size(); ++i)
    EXPECT_NEAR(leaves[0].tensor.detach()[static_cast<int64_t>(i)].item<double>() / path[i],
                naive[i].w / path[i], GetParam() == at::kFloat ? 3e-6 : 1e-13)
        << i;
}

// Several threads' ranges, whole registers and remainders, clipping and two averages in one pass.
TEST(AdamW, InOnePassWithClippingAndAveragesEqualsTheAlgorithmInDouble) {
  constexpr int64_t n = 109 * 367;
  const Parameters parameters{named("w", {109, 367})};
  std::vector<Leaf> leaves{leaf_of(parameters, 1, at::randn({109, 367}, at::kDouble))};
  AdamWOptions o;
  o.beta1 = 0.8, o.beta2 = 0.95, o.eps = 1e-6, o.weight_decay = 0.3;
  AdamW adam(parameters, leaves, o);
  Ema slow(leaves, 0.9, true), fast(leaves, 0.5, false);
  std::vector<Naive> naive;
  std::vector<double> want_slow, want_fast;
  for (int64_t i = 0; i < n; ++i) {
    const double w = leaves[0].tensor.detach().flatten()[i].item<double>();
    naive.push_back({w});
    want_slow.push_back(w), want_fast.push_back(w);
  }
  for (int step = 0; step < 5; ++step) {
    const at::Tensor g = at::randn({109, 367}, at::kDouble);
    leaves[0].tensor.mutable_grad() = g;
    adam.step(0.05, 0.25, {&slow, &fast});
    const double keep = std::min(0.9, (1. + step) / (10. + step));
    for (size_t i = 0; i < naive.size(); ++i) {
      naive[i].step(0.25 * g.data_ptr<double>()[i], 0.05, 0.3, 0.8, 0.95, 1e-6);
      want_slow[i] = keep * want_slow[i] + (1 - keep) * naive[i].w;
      want_fast[i] = 0.5 * want_fast[i] + 0.5 * naive[i].w;
    }
  }
  double worst = 0;
  for (size_t i = 0; i < naive.size(); ++i) {
    const auto off = [&](const at::Tensor& t, double want) {
      worst = test::worse(worst, std::abs(t.data_ptr<double>()[i] - want));
    };
    off(leaves[0].tensor.detach(), naive[i].w);
    off(slow.values()[0], want_slow[i]);
    off(fast.values()[0], want_fast[i]);
  }
  EXPECT_LT(worst, 1e-13);
  EXPECT_EQ(slow.updates(), 5);
}

TEST(AdamW, AndNormsHaveTheSameBitsAtAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  for (const auto type : {at::kFloat, at::kDouble}) {
    at::manual_seed(4);
    const at::Tensor start = at::randn({70001}, type), gradient = at::randn({70001}, type);
    at::Tensor want_w, want_a;
    double want_norm = 0;
    for (const int threads : {1, 2, 3, 5}) {
      at::set_num_threads(threads);
      const Parameters parameters{named("w", {70001})};
      std::vector<Leaf> leaves{leaf_of(parameters, 1, start.clone())};
      AdamW adam(parameters, leaves);
      Ema ema(leaves, 0.9);
      double norm = 0;
      for (int step = 0; step < 3; ++step) {
        leaves[0].tensor.mutable_grad() = gradient * (step + 1);
        norm = gradient_norm(leaves);
        adam.step(0.1, clip_factor(norm, 1), {&ema});
      }
      norm += weight_norm(leaves);
      if (threads == 1) want_w = leaves[0].tensor, want_a = ema.values()[0], want_norm = norm;
      EXPECT_TRUE(at::equal(leaves[0].tensor, want_w)) << threads;
      EXPECT_TRUE(at::equal(ema.values()[0], want_a)) << threads;
      EXPECT_EQ(norm, want_norm) << threads;
    }
    EXPECT_NEAR(want_norm / (3 * gradient.norm().item<double>() + want_w.norm().item<double>()), 1, 1e-6);
  }
  at::set_num_threads(before);
}

TEST(AdamW, EqualsLibtorchsKernel) {
  const Parameters parameters{named("w", {1003, 5})};
  std::vector<Leaf> leaves{leaf_of(parameters, 1, at::randn({1003, 5}, at::kDouble))};
  AdamWOptions o;
  o.weight_decay = 0.1;
  AdamW adam(parameters, leaves, o);
  at::Tensor w = leaves[0].tensor.detach().clone(), m = at::zeros_like(w), v = at::zeros_like(w);
  for (int step = 1; step < 20; ++step) {
    const at::Tensor g = at::randn_like(w);
    leaves[0].tensor.mutable_grad() = g;
    adam.step(0.01);
    at::_fused_adamw_({w}, {g}, {m}, {v}, {}, {at::full({}, double(step), at::kFloat)}, 0.01, o.beta1,
                      o.beta2, 0.1, o.eps, false, false);
  }
  EXPECT_LT((leaves[0].tensor - w).abs().max().item<double>(), 1e-12);
  EXPECT_LT((adam.state(0)[0] - m).abs().max().item<double>(), 1e-12);
}

TEST(AdamW, DecaysWhatIsMultipliedAndNotWhatIsLookedUp) {
  const std::tuple<uint32_t, size_t, bool> cases[] = {
      {KINORA_ROLE_COLUMN, 2, true}, {KINORA_ROLE_ROW, 2, true},    {KINORA_ROLE_WHOLE, 5, true},
      {KINORA_ROLE_WHOLE, 2, true},  {KINORA_ROLE_WHOLE, 1, false}, {KINORA_ROLE_TABLE, 2, false},
      {KINORA_ROLE_TABLE, 3, false},
  };
  Parameters parameters;
  std::vector<Leaf> leaves;
  for (const auto& [role, dims, wanted] : cases) {
    parameters.push_back(named("w", std::vector<int64_t>(dims, 2)));
    parameters.back().role = role;
    const auto id = static_cast<kinora_param>(parameters.size());
    leaves.push_back(leaf_of(parameters, id, at::ones(parameters.back().shape)));
  }
  AdamWOptions o;
  o.weight_decay = 0.5;
  AdamW optimizer(parameters, leaves, o);
  for (auto& leaf : leaves) leaf.tensor.mutable_grad() = at::zeros_like(leaf.tensor);
  optimizer.step(0.1);
  for (size_t i = 0; i < leaves.size(); ++i)
    EXPECT_FLOAT_EQ(leaves[i].tensor.min().item<float>(), std::get<2>(cases[i]) ? 0.95f : 1.f) << i;
  auto gain = named("gamma", {8, 1, 1, 1});  // a norm's gain over the channels of a video
  EXPECT_FALSE(decays(gain));
}

TEST(AdamW, AFlatLeafOfSeveralParametersStepsAsTheirOwnLeaves) {
  const Parameters parameters{named("w", {4, 3}), named("bias", {5}), named("u", {2, 2})};
  std::vector<Leaf> apart, flat(1);
  for (kinora_param id = 1; id <= 3; ++id)
    apart.push_back(
        leaf_of(parameters, id, at::randn(parameters[static_cast<size_t>(id - 1)].shape, at::kDouble)));
  flat[0].tensor = at::cat({apart[0].tensor.detach().flatten(), apart[1].tensor.detach(),
                            apart[2].tensor.detach().flatten()})
                       .set_requires_grad(true);
  flat[0].pieces = {{1, 0, 12, 0}, {2, 0, 5, 12}, {3, 0, 4, 17}};
  AdamW a(parameters, apart), f(parameters, flat);
  for (int step = 0; step < 3; ++step) {
    std::vector<at::Tensor> grads;
    for (auto& l : apart)
      grads.push_back((l.tensor.mutable_grad() = at::randn_like(l.tensor.detach())).flatten());
    flat[0].tensor.mutable_grad() = at::cat(grads);
    EXPECT_NEAR(gradient_norm(flat), gradient_norm(apart), 1e-14);
    a.step(0.1);
    f.step(0.1);
  }
  const auto joined = at::cat({apart[0].tensor.flatten(), apart[1].tensor, apart[2].tensor.flatten()});
  EXPECT_TRUE(at::allclose(flat[0].tensor, joined, 0, 1e-15));
}

// Two flat shards with padding at the end, as on two ranks, against the parameters' own leaves: one leaf
// holds weights with and without decay, and a cut splits a parameter.
TEST(AdamW, FlatShardsStepAndAverageBitForBitAsTheWholeDoes) {
  const Parameters parameters{named("bias", {5}), named("w", {4, 3}), named("gain", {4})};
  const std::vector<std::vector<Piece>> pieces{{{1, 0, 5, 0}, {2, 0, 6, 5}}, {{2, 6, 6, 0}, {3, 0, 4, 6}}};
  std::vector<Leaf> apart;
  for (kinora_param id = 1; id <= 3; ++id)
    apart.push_back(leaf_of(parameters, id, at::randn(parameters[static_cast<size_t>(id - 1)].shape)));
  const auto joined = [&](auto of) {
    std::vector<at::Tensor> all;
    for (size_t i = 0; i < apart.size(); ++i) all.push_back(of(i).detach().flatten());
    all.push_back(at::zeros({1}));  // padding
    return at::cat(all);
  };
  const auto weights = [&] { return joined([&](size_t i) { return apart[i].tensor; }); };
  std::vector<std::vector<Leaf>> ranks;
  for (size_t r = 0; r < 2; ++r)
    ranks.push_back(
        {{"flat", weights().narrow(0, static_cast<int64_t>(r) * 11, 11).clone().set_requires_grad(true),
          false, true, pieces[r]}});
  AdamW whole(parameters, apart, {.weight_decay = 0.3});
  Ema average(apart, 0.9, true);
  AdamW first(parameters, ranks[0], {.weight_decay = 0.3}),
      second(parameters, ranks[1], {.weight_decay = 0.3});
  Ema first_average(ranks[0], 0.9, true), second_average(ranks[1], 0.9, true);
  for (int step = 0; step < 3; ++step) {
    for (auto& l : apart) l.tensor.mutable_grad() = at::randn_like(l.tensor.detach());
    const auto gradient = joined([&](size_t i) { return apart[i].tensor.grad(); });
    for (size_t r = 0; r < 2; ++r)
      ranks[r][0].tensor.mutable_grad() = gradient.narrow(0, static_cast<int64_t>(r) * 11, 11).clone();
    const auto with_second = [&](auto norm) {
      return norm(
          ranks[0], [](const Leaf&, const Piece&) { return 1; },
          [&](double mine) { return mine + std::pow(norm(ranks[1], {}, {}), 2); });
    };
    EXPECT_NEAR(with_second(gradient_norm), gradient_norm(apart), 1e-14);
    EXPECT_NEAR(with_second(weight_norm), weight_norm(apart), 1e-14);
    whole.step(0.1, 0.5, {&average});
    first.step(0.1, 0.5, {&first_average});
    second.step(0.1, 0.5, {&second_average});
    EXPECT_TRUE(at::equal(at::cat({ranks[0][0].tensor, ranks[1][0].tensor}), weights())) << step;
    EXPECT_TRUE(at::equal(at::cat({first_average.values()[0], second_average.values()[0]}),
                          joined([&](size_t i) { return average.values()[i]; })))
        << step;
  }
}

TEST(AdamW, IsBitExactAfterItsStateWasSavedAndLoaded) {
  const Parameters parameters{named("w", {64, 33})};
  const auto start = at::randn({64, 33});
  const auto run = [&](int from, int to, std::vector<Leaf>& leaves, AdamW& adam) {
    for (int s = from; s < to; ++s) {
      leaves[0].tensor.mutable_grad() = (leaves[0].tensor.detach() * (s + 1)).sin();
      adam.step(0.01);
    }
  };
  std::vector<Leaf> whole{leaf_of(parameters, 1, start.clone())};
  AdamW w(parameters, whole);
  run(0, 10, whole, w);
  std::vector<Leaf> first{leaf_of(parameters, 1, start.clone())};
  AdamW f(parameters, first);
  run(0, 6, first, f);
  const auto m = assemble(parameters, first, f.state(0)), v = assemble(parameters, first, f.state(1));
  std::vector<Leaf> second{leaf_of(parameters, 1, first[0].tensor.detach().clone())};
  AdamW s(parameters, second);
  distribute(parameters, second, s.state(0), {"w"}, [&](const auto& n) { return m.at(n); });
  distribute(parameters, second, s.state(1), {"w"}, [&](const auto& n) { return v.at(n); });
  s.set_steps(f.steps());
  run(6, 10, second, s);
  EXPECT_TRUE(at::equal(second[0].tensor, whole[0].tensor));
}

// States of fewer bits need a host that stores them (kinora/abi/optimizer.h).
TEST(AdamW, WhoseStatesHadAnotherDtypeIsRefused) {
  const Parameters parameters{named("w", {4})};
  std::vector<Leaf> leaves{leaf_of(parameters, 1, at::ones({4}))};
  Component adamw = or_throw(test::plugins().open("optimizer/adamw"));
  ComponentSpec spec = *adamw.spec;
  adamw.spec = &spec;
  const auto make = [&] {
    Optimizer(adamw, or_throw(Options::make(spec, json::object())), parameters, leaves, usual_decay(0));
  };
  EXPECT_NO_THROW(make());
  spec.outputs[1].dtype = "uint8";
  try {
    make();
    FAIL() << "it is taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), KINORA_ERROR_UNSUPPORTED);
    EXPECT_THAT(e.what(), testing::HasSubstr("its state 'second' is of dtype uint8"));
  }
}

// Zeros in their place would make other steps, unsaid.
TEST(AdamW, RefusesAStateThatLacksAMoment) {
  const Parameters parameters{named("w", {4}), named("b", {2})};
  std::vector<Leaf> leaves{leaf_of(parameters, 1, at::ones({4})), leaf_of(parameters, 2, at::ones({2}))};
  AdamW adam(parameters, leaves);
  const NamedTensors all{{"first.w", at::ones({4})},
                         {"first.b", at::ones({2})},
                         {"second.w", at::ones({4})},
                         {"second.b", at::ones({2})}};
  EXPECT_NO_THROW(adam.restore(all));
  for (const auto& [name, t] : all) {
    auto some = all;
    some.erase(name);
    EXPECT_THAT(test::refusal([&] { adam.restore(some); }),
                testing::HasSubstr("'" + name.substr(name.find('.') + 1) + "'"));
  }
  EXPECT_THAT(test::refusal([&] { adam.restore({}); }), testing::HasSubstr("'w'"));
}

TEST(Gradients, HaveOneNormAndTheFactorThatClipsIt) {
  const Parameters parameters{named("a", {3}), named("b", {2})};
  std::vector<Leaf> leaves{leaf_of(parameters, 1, at::zeros({3})), leaf_of(parameters, 2, at::zeros({2}))};
  leaves[0].tensor.mutable_grad() = at::tensor({1., 2., 2.}, at::kFloat);
  leaves[1].tensor.mutable_grad() = at::tensor({4., 0.}, at::kFloat);
  EXPECT_DOUBLE_EQ(gradient_norm(leaves), 5);
  // Two ranks hold b: each counts half of it, and the sum over ranks is the norm again.
  const auto share = [](const Leaf& l, const Piece&) { return l.name == "b" ? 0.5 : 1; };
  EXPECT_DOUBLE_EQ(gradient_norm(leaves, share, [](double mine) { return mine + 0.5 * 16; }), 5);
  EXPECT_EQ(clip_factor(5, 10), 1);
  EXPECT_NEAR(clip_factor(5, 1), 0.2, 1e-6);
}

TEST(Ema, IsTheGeometricAverageAndSwapsBack) {
  const Parameters parameters{named("a", {1})};
  std::vector<Leaf> leaves{leaf_of(parameters, 1, at::zeros({1}, at::kDouble))};
  Ema ema(leaves, 0.9), rising(leaves, 0.9, true);
  double want = 0, want_rising = 0;
  for (int n = 0; n < 30; ++n) {
    leaves[0].tensor.detach().fill_(n + 1);
    ema.update(leaves);
    rising.update(leaves);
    want = 0.9 * want + 0.1 * (n + 1);
    const double decay = std::min(0.9, (1. + n) / (10. + n));
    want_rising = decay * want_rising + (1 - decay) * (n + 1);
  }
  EXPECT_NEAR(ema.values()[0].item<double>(), want, 1e-12);
  EXPECT_NEAR(rising.values()[0].item<double>(), want_rising, 1e-12);
  ema.swap(leaves);
  EXPECT_NEAR(leaves[0].tensor.item<double>(), want, 1e-12);
  ema.swap(leaves);
  EXPECT_EQ(leaves[0].tensor.item<double>(), 30);
  std::vector<Ema> averages{ema}, none;
  try {
    const Averaged average(averages, leaves), nothing(none, leaves);
    EXPECT_NEAR(leaves[0].tensor.item<double>(), want, 1e-12);
    throw std::runtime_error("while the averages are the weights");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(leaves[0].tensor.item<double>(), 30) << "an exception swaps them back";
}

Schedule schedule(const std::string& kind) {
  Schedule s;
  s.kind = kind, s.learning_rate = 2, s.final_rate = 0.5, s.warmup = 4, s.total = 104, s.decay_share = 0.25;
  return s;
}

TEST(Rate, OfEveryKindRisesLinearlyFirst) {
  const double expected[] = {0.5, 1, 1.5, 2};
  for (const char* kind : {"constant", "cosine", "linear", "wsd"})
    for (int i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(rate(schedule(kind), i), expected[i]) << kind;
}

// Each kind's closed form at every step; t is the elapsed share of its decay.
TEST(Rate, ThenFallsAsItsFormulaSays) {
  const auto fall = [](double left) { return 0.5 + 1.5 * left; };
  Schedule straight = schedule("wsd");
  straight.decay_shape = "linear";
  for (int step = 4; step <= 104; ++step) {
    const double t = (step - 4) / 100.0, late = std::max(0.0, (step - 78) / 26.0);
    EXPECT_DOUBLE_EQ(rate(schedule("constant"), step), 2);
    EXPECT_NEAR(rate(schedule("cosine"), step), fall((1 + std::cos(M_PI * t)) / 2), 1e-14);
    EXPECT_NEAR(rate(schedule("linear"), step), fall(1 - t), 1e-14);
    EXPECT_NEAR(rate(schedule("wsd"), step), fall(1 - std::sqrt(late)), 1e-14) << step;
    EXPECT_NEAR(rate(straight, step), fall(1 - late), 1e-14) << step;
  }
  for (const char* kind : {"cosine", "linear", "wsd"})
    EXPECT_DOUBLE_EQ(rate(schedule(kind), 1000), 0.5) << kind;
}

TEST(Rate, OfAFallThatWouldBeginInTheWarmupFallsAfterIt) {
  Schedule s = schedule("wsd");
  s.decay_share = 1, s.decay_shape = "linear";
  EXPECT_DOUBLE_EQ(rate(s, 54), rate(schedule("linear"), 54));
}

TEST(Rate, RefusesWhatIsNoSchedule) {
  EXPECT_THROW(rate(schedule("cubic"), 54), Error);
  Schedule s = schedule("cosine");
  s.total = 4;
  EXPECT_EQ(rate(s, 3), 2) << "a run may end within its warm-up";
  EXPECT_THROW(rate(s, 4), Error);
}

}  // namespace
}  // namespace kinora::core
