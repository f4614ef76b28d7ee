// Nodes of the autograd graph that are C functions: gradients, lifetime, and errors that pass through
// libtorch's engine.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/plugin/host.hpp"
#include "core/torch/tensors/tensors_api.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

using testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

struct State {
  std::function<Tensors(const Tensors&)> forward, backward;
  size_t n_in, n_out;
  int* dropped;
};

Tensors list(const kinora_tensor* h, size_t n) {
  Tensors out;
  for (size_t i = 0; i < n; ++i) out.push_back(borrow<at::Tensor>(h[i]));
  return out;
}
int32_t run(const std::function<Tensors(const Tensors&)>& f, const kinora_tensor* in, size_t n_in,
            kinora_tensor* out) {
  return guard([&] {
    auto made = f(list(in, n_in));
    for (size_t i = 0; i < made.size(); ++i) out[i] = give(made[i]);
  });
}

class Autograd : public testing::Test {
 protected:
  static void SetUpTestSuite() { serve_tensors(); }
  Tensors apply(State s, const Tensors& in) {
    const auto n_in = static_cast<uint32_t>(s.n_in), n_out = static_cast<uint32_t>(s.n_out);
    const kinora_function f{
        sizeof(kinora_function),
        n_in,
        n_out,
        0,
        new State(std::move(s)),
        [](void* p, const kinora_tensor* i, kinora_tensor* o) {
          return run(static_cast<State*>(p)->forward, i, static_cast<State*>(p)->n_in, o);
        },
        [](void* p, const kinora_tensor* i, kinora_tensor* o) {
          return run(static_cast<State*>(p)->backward, i, static_cast<State*>(p)->n_out, o);
        },
        [](void* p) { ++*static_cast<State*>(p)->dropped, delete static_cast<State*>(p); }};
    std::vector<kinora_tensor> handles, out(n_out, nullptr);
    for (const auto& t : in) handles.push_back(handle(t));
    check_or_stop(tensors_api_table()->autograd_apply(&f, handles.data(), out.data()));
    Tensors made;
    for (auto* h : out) made.push_back(adopt<at::Tensor>(h));
    return made;
  }
  int dropped_ = 0;
  at::Tensor leaf(at::IntArrayRef shape) { return at::randn(shape, at::kDouble).set_requires_grad(true); }
};

TEST_F(Autograd, GradientsAgreeWithFiniteDifferences) {
  // y0 = a * sin(b), y1 = a + b; the loss weights all elements differently.
  const auto a = leaf({5}), b = leaf({5}), w0 = at::randn({5}, at::kDouble), w1 = at::randn({5}, at::kDouble);
  const State s{[](const Tensors& t) {
                  return Tensors{t[0] * t[1].sin(), t[0] + t[1]};
                },
                [a, b](const Tensors& g) {
                  return Tensors{g[0] * b.sin() + g[1], g[0] * a * b.cos() + g[1]};
                },
                2, 2, &dropped_};
  const auto loss_of = [&](const at::Tensor& x, const at::Tensor& y) {
    const auto out = apply(s, {x, y});
    return (out[0] * w0 + out[1] * w1).sum();
  };
  const auto got = torch::autograd::grad({loss_of(a, b)}, {a, b});
  const at::NoGradGuard guard;
  const double h = 1e-6;
  for (int which = 0; which < 2; ++which)
    for (int64_t i = 0; i < 5; ++i) {
      auto step = at::zeros({5}, at::kDouble);
      step[i] = h;
      const auto at_offset = [&](double sign) {
        return loss_of(which ? a : a + sign * step, which ? b + sign * step : b).item<double>();
      };
      EXPECT_NEAR(got[static_cast<size_t>(which)][i].item<double>(), (at_offset(1) - at_offset(-1)) / (2 * h),
                  1e-8);
    }
}

TEST_F(Autograd, UnusedResultsGiveZerosAndAbsentInputsGetNothing) {
  const auto a = leaf({3});
  bool zeros = false;
  const auto out =
      apply({[](const Tensors& t) {
               return Tensors{t[0] * 2, t[0] * 3};
             },
             [&](const Tensors& g) {
               zeros = g[1].defined() && g[1].abs().sum().item<double>() == 0 && !at::GradMode::is_enabled();
               at::GradMode::set_enabled(true);  // left enabled; must not leak
               return Tensors{g[0] * 2, {}};
             },
             2, 2, &dropped_},
            {a, {}});
  out[0].sum().backward();
  EXPECT_TRUE(zeros);
  EXPECT_TRUE(at::equal(a.grad(), at::full({3}, 2., at::kDouble)));
}

TEST_F(Autograd, StateIsDroppedOnceWhenTheGraphDies) {
  const auto a = leaf({3});
  const State s{[](const Tensors& t) { return Tensors{t[0] * 2}; },
                [](const Tensors& g) { return Tensors{g[0] * 2}; }, 1, 1, &dropped_};
  {
    const auto out = apply(s, {a});
    EXPECT_EQ(dropped_, 0);
    out[0].sum().backward();
    EXPECT_EQ(dropped_, 0) << "the graph lives as long as its output";
  }
  EXPECT_EQ(dropped_, 1);
  apply(s, {a.detach()});
  EXPECT_EQ(dropped_, 2) << "no graph was kept";
  const at::NoGradGuard guard;
  apply(s, {a});
  EXPECT_EQ(dropped_, 3);
}

int32_t doubled(void*, const kinora_tensor* in, kinora_tensor* out) {
  return guard([&] { out[0] = give(borrow<at::Tensor>(in[0]) * 2); });
}

// A writer of another minor: its struct ends before drop(), or has one more member.
TEST_F(Autograd, AFunctionIsReadAsFarAsItsWriterKnowsIt) {
  struct Later {
    kinora_function f;
    uint64_t grown;
  };
  for (const size_t size : {offsetof(kinora_function, drop), sizeof(Later)}) {
    Later given{{static_cast<uint32_t>(size), 1, 1, 0, &dropped_, doubled, doubled,
                 [](void* dropped) { ++*static_cast<int*>(dropped); }},
                UINT64_MAX};
    const auto x = leaf({3});
    const kinora_tensor in = handle(x);
    kinora_tensor out = nullptr;
    dropped_ = 0;
    check(tensors_api_table()->autograd_apply(&given.f, &in, &out));
    given = {};  // it was copied
    {
      const auto y = adopt<at::Tensor>(out);
      const auto got = torch::autograd::grad({y.sum()}, {x});
      EXPECT_TRUE(at::equal(got[0], at::full({3}, 2., at::kDouble))) << size;
    }
    EXPECT_EQ(dropped_, size == sizeof(Later)) << size;
  }
}

TEST_F(Autograd, AnErrorInForwardIsThePluginsAndDropsTheState) {
  const auto a = leaf({3});
  try {
    apply({[](const Tensors&) -> Tensors { throw Error(KINORA_ERROR_TIMEOUT, "rank 3 did not answer"); },
           nullptr, 1, 1, &dropped_},
          {a});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), KINORA_ERROR_TIMEOUT);
    EXPECT_STREQ(e.what(), "rank 3 did not answer");
  }
  EXPECT_EQ(dropped_, 1);
  EXPECT_THROW(apply({[](const Tensors&) -> Tensors { throw Stop{}; }, nullptr, 1, 1, &dropped_}, {a}), Stop);
  EXPECT_EQ(dropped_, 2);
}

TEST_F(Autograd, AnErrorInBackwardReachesWhoCalledBackwardWithItsTextAndCode) {
  const auto a = leaf({3});
  const State s{[](const Tensors& t) { return Tensors{t[0] * 2}; },
                [](const Tensors&) -> Tensors { throw Error(KINORA_ERROR_TIMEOUT, "rank 3 did not answer"); },
                1, 1, &dropped_};
  {
    const auto out = apply(s, {a});
    EXPECT_THROW(out[0].sum().backward(), Error);
  }
  const auto out = apply(s, {a});
  const auto loss = out[0].sum();
  const kinora_tensor output = handle(loss), input = handle(a);
  kinora_tensor grad = nullptr;
  EXPECT_EQ(tensors_api_table()->grad(&output, nullptr, 1, &input, 1, &grad), KINORA_ERROR_TIMEOUT);
  EXPECT_EQ(std::string(view(host()->last_error(host()))), "rank 3 did not answer");
}

TEST_F(Autograd, ABlockCanRunAgainInsideTheBackward) {
  const auto x = leaf({4}), w = leaf({4});
  int runs = 0;
  const auto block = [&](const at::Tensor& t, const at::Tensor& v) { return ++runs, (t * v).tanh() * v; };
  const State s{
      [&](const Tensors& t) { return Tensors{block(t[0], t[1])}; },
      [&](const Tensors& g) {
        const int32_t before = tensors_api_table()->set_grad_mode(1);
        auto t = x.detach().set_requires_grad(true), v = w.detach().set_requires_grad(true);
        const auto y = block(t, v);
        kinora_tensor out = handle(y), weight = handle(g[0]), in[] = {handle(t), handle(v)}, grads[2] = {};
        check(tensors_api_table()->grad(&out, &weight, 1, in, 2, grads));
        tensors_api_table()->set_grad_mode(before);
        return Tensors{adopt<at::Tensor>(grads[0]), adopt<at::Tensor>(grads[1])};
      },
      2, 1, &dropped_};
  const auto got = torch::autograd::grad({apply(s, {x, w})[0].sum()}, {x, w});
  EXPECT_EQ(runs, 2);
  const auto want = torch::autograd::grad({block(x, w).sum()}, {x, w});
  EXPECT_TRUE(at::allclose(got[0], want[0], 1e-14, 1e-14));
  EXPECT_TRUE(at::allclose(got[1], want[1], 1e-14, 1e-14));
}

TEST_F(Autograd, ForwardMustGiveEveryOutput) {
  EXPECT_THROW(
      apply({[](const Tensors&) { return Tensors{at::Tensor()}; }, nullptr, 1, 1, &dropped_}, {leaf({1})}),
      Error);
  EXPECT_EQ(dropped_, 1);
}

}  // namespace
}  // namespace kinora::core
