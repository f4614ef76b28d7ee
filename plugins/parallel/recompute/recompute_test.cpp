// Recompute against a plain chain on a model of three blocks, in float64: all numbers are equal, and half of
// the activations are never kept.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include "core/torch/chain/chain.hpp"
#include "core/torch/ranks/mesh.hpp"
#include "kinora/abi/parallel.h"
#include "kinora/aten.hpp"
#include "kinora/context.hpp"
#include "tests/support/plugins.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
constexpr int64_t kBatch = 2, kTokens = 6, kChannels = 3, kWidth = 5;

// Observes the blocks of Toy.
struct Watch {
  int runs = 0;
  c10::weak_intrusive_ptr<c10::TensorImpl> inside{
      c10::intrusive_ptr<c10::TensorImpl>()};  // an activation of block 1
  std::weak_ptr<int> held;                     // lives as long as block 1's function
  int fails_at_run = -1;
  bool captures = false;  // block 1 captures the condition: the error that context.h forbids
};

// Embedding, one block with noise and a condition, head. The head's scale is read outside blocks, one
// parameter is frozen.
struct Toy {
  Context<Tensor> ctx;
  kinora_param in, up, bias, down, out, scale, fixed;
  explicit Toy(const kinora_context* c) : ctx(c) {
    const auto p = [&](const char* name, std::vector<int64_t> shape, int64_t block, bool frozen = false) {
      return ctx.parameter({.name = name,
                            .shape = std::move(shape),
                            .init = Init::normal(0.5),
                            .block = block,
                            .frozen = frozen});
    };
    in = p("in", {kWidth, kChannels}, 0);
    up = p("up", {kWidth, kWidth}, 1);
    bias = p("bias", {kWidth}, 1);
    down = p("down", {kWidth, kWidth}, 1);
    fixed = p("fixed", {kWidth}, 1, true);
    out = p("out", {kChannels, kWidth}, 2);
    scale = p("scale", {kChannels}, -1);
  }
  Tensor forward(const Tensor& x, const Tensor& condition, Watch* w) const {
    kinora_seq seq = 0;
    const Tensor tokens = ctx.sequence(x, 1, 2, 3, seq);
    auto h = ctx.block(0, {tokens}, {}, 1,
                       [this, seq](const Tensors& t) { return Tensors{ctx.linear(t[0], in, 0, seq)}; });
    const auto held = std::make_shared<int>(0);
    w->held = held;
    const Tensor captured = w->captures ? condition : Tensor();
    h = ctx.block(1, h, {condition}, 1, [this, seq, w, held, captured](const Tensors& t) {
      if (++w->runs == w->fails_at_run) throw Error(KINORA_ERROR_NO_MEMORY, "block 1 has no memory left");
      const Tensor& c = captured.defined() ? captured : t[1];
      const Tensor before = ctx.linear(t[0], up, bias, seq) * c.unsqueeze(1) + ctx.noise(t[0], seq, "toy");
      w->inside = c10::weak_intrusive_ptr<c10::TensorImpl>(before.getIntrusivePtr());
      const Tensor a = at::silu(before);  // its backward needs `before`
      return Tensors{t[0] + ctx.linear(a * ctx.value(fixed), down, 0, seq)};
    });
    h = ctx.block(2, h, {}, 1,
                  [this, seq](const Tensors& t) { return Tensors{ctx.linear(t[0].sin(), out, 0, seq)}; });
    return ctx.gather(h[0], seq) * ctx.value(scale);
  }
};

// A chain with Toy behind it, plain or with the recompute link.
struct Chained {
  core::MeshOwner mesh;
  test::Instance<kinora_parallel> recompute;
  std::unique_ptr<core::Chain> chain;
  std::unique_ptr<Toy> toy;
  Watch watch;
  explicit Chained(bool again, const core::json& given = core::json::object())
      : recompute("parallel/recompute", given, mesh.abi()) {
    const kinora_link* link = nullptr;
    check(recompute->link(recompute.self(), &link));
    core::ChainOptions options;
    options.seed = 3;
    options.dtype = at::kDouble;
    chain =
        std::make_unique<core::Chain>(options, again ? std::vector{link} : std::vector<const kinora_link*>{});
    toy = std::make_unique<Toy>(chain->head());
    chain->ready();
  }
  Tensor forward(const Tensor& x, const Tensor& condition, int64_t first_sample = 0, bool no_grad = false) {
    kinora_pass pass{};
    pass.struct_size = sizeof pass;
    pass.no_grad = no_grad;
    pass.first_sample = first_sample;
    pass.seed = 17;
    chain->begin(pass);
    return toy->forward(x, condition, &watch);
  }
  std::map<std::string, Tensor> gradients() const {
    std::map<std::string, Tensor> out;
    for (const auto& leaf : chain->leaves()) out[leaf.name] = leaf.tensor.grad();
    return out;
  }
};

struct Data {
  Tensor x, condition, weight;
};
Data data(uint64_t seed = 1) {
  at::manual_seed(seed);
  const auto random = [](std::vector<int64_t> shape) { return at::randn(shape, at::kDouble); };
  return {random({kBatch, kTokens, kChannels}), random({kBatch, kWidth}),
          random({kBatch, kTokens, kChannels})};
}

double worst(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return INFINITY;
  if (!a.defined() || a.equal(b)) return 0;
  const double apart = ((a - b).abs().max() / b.abs().max()).item<double>();
  return std::isnan(apart) ? INFINITY : apart;
}

// Worst relative difference of the output, every parameter gradient and every input gradient.
double difference(bool inputs_need_gradient, bool captures = false) {
  std::map<std::string, Tensor> found[2];
  for (const bool again : {false, true}) {
    Chained s(again);
    s.watch.captures = captures;
    Data d = data();
    d.x.set_requires_grad(inputs_need_gradient);
    d.condition.set_requires_grad(inputs_need_gradient);
    const Tensor y = s.forward(d.x, d.condition);
    (y * d.weight).sum().backward();
    found[again] = s.gradients();
    found[again]["output"] = y.detach();
    found[again]["input x"] = d.x.grad();
    found[again]["input condition"] = d.condition.grad();
  }
  double out = 0;
  EXPECT_EQ(found[0].size(), 10u);
  EXPECT_FALSE(found[1]["fixed"].defined());
  EXPECT_GT(found[0]["in"].abs().max().item<double>(), 0);
  for (const auto& [name, value] : found[0]) out = test::worse(out, worst(found[1][name], value));
  return out;
}

TEST(Recompute, EqualsPlain) { EXPECT_LE(difference(true), 1e-15); }

// Raw data needs no gradient: only its parameters connect the first block to the graph.
TEST(Recompute, FirstBlockKeepsTheGradientsOfItsParameters) { EXPECT_LE(difference(false), 1e-15); }

TEST(Recompute, ACapturedTensorLosesItsGradient) { EXPECT_GT(difference(true, true), 1e-2); }

// Two microbatches in flight: each second run draws the noise of its own samples, not of the current
// pass.
TEST(Recompute, RandomNumbersAreThoseOfTheFirstRun) {
  std::map<std::string, Tensor> found[2];
  for (const bool again : {false, true}) {
    Chained s(again);
    const Data a = data(1), b = data(2);
    const Tensor first = s.forward(a.x, a.condition, 0), second = s.forward(b.x, b.condition, kBatch);
    (first * a.weight).sum().backward();
    (second * b.weight).sum().backward();
    found[again] = s.gradients();
    EXPECT_EQ(s.chain->pass().first_sample, kBatch);
    EXPECT_EQ(s.chain->pass().recompute, 0u);
  }
  for (const auto& [name, value] : found[0]) EXPECT_LE(worst(found[1][name], value), 1e-15) << name;
}

TEST(Recompute, RunsABlockTwiceAndOnceWithoutGradient) {
  Chained s(true);
  const Data d = data();
  const Tensor y = s.forward(d.x, d.condition);
  EXPECT_EQ(s.watch.runs, 1);
  y.sum().backward();
  EXPECT_EQ(s.watch.runs, 2);
  s.forward(d.x, d.condition, 0, true);
  EXPECT_EQ(s.watch.runs, 3);
  const GradMode off(false);
  s.forward(d.x, d.condition);
  EXPECT_EQ(s.watch.runs, 4);
}

TEST(Recompute, KeepsNoActivationAndLetsTheBlockGo) {
  for (const bool again : {false, true}) {
    Chained s(again);
    Data d = data();
    Tensor y = s.forward(d.x.set_requires_grad(true), d.condition);
    EXPECT_EQ(s.watch.inside.expired(), again);
    EXPECT_EQ(s.watch.held.expired(), !again);  // the graph keeps the function exactly as long as it exists
    y.sum().backward();
    y = Tensor();
    EXPECT_TRUE(s.watch.held.expired());
    EXPECT_TRUE(s.watch.inside.expired());
  }
}

TEST(Recompute, RunsOnlyTheBlocksThatItIsToldTo) {
  const auto again = [](const core::json& given) {
    Chained s(true, given);
    Data d = data();
    s.forward(d.x.set_requires_grad(true), d.condition).sum().backward();
    return s.watch.runs == 2;  // runs of block 1
  };
  EXPECT_TRUE(again({{"every", 1}}));
  EXPECT_FALSE(again({{"every", 2}})) << "blocks 0 and 2";
  EXPECT_TRUE(again({{"every", 2}, {"first", 1}}));
  EXPECT_FALSE(again({{"first", 2}}));
  EXPECT_FALSE(again({{"last", 0}}));
  EXPECT_TRUE(again({{"first", 1}, {"last", 1}}));
}

// Peak bytes of libtorch's allocator that are in use.
class Peak final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    now_ += size;
    most_ = std::max<int64_t>(most_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t most() const { return most_; }

 private:
  int64_t now_ = 0, most_ = 0;
};

// Twelve blocks that keep four activations each.
int64_t peak_bytes(bool recomputes, const core::json& given) {
  constexpr int64_t kBlocks = 12, kSize = 64;
  core::MeshOwner mesh;
  test::Instance<kinora_parallel> strategy("parallel/recompute", given, mesh.abi());
  const kinora_link* link = nullptr;
  check(strategy->link(strategy.self(), &link));
  core::Chain chain({}, recomputes ? std::vector{link} : std::vector<const kinora_link*>{});
  const Context<Tensor> ctx(chain.head());
  std::vector<kinora_param> weights;
  for (int64_t b = 0; b < kBlocks; ++b)
    weights.push_back(ctx.parameter(
        {.name = "w" + std::to_string(b), .shape = {kSize, kSize}, .init = Init::normal(0.1), .block = b}));
  chain.ready();
  chain.begin({sizeof(kinora_pass), 0, 0, 0, 0, 0, 0, 1});
  const auto info = std::make_shared<Peak>();
  const c10::DebugInfoGuard measure(c10::DebugInfoKind::PROFILER_STATE, info);
  kinora_seq seq = 0;
  Tensor x = ctx.sequence(at::ones({1, 256, kSize}).set_requires_grad(true), 4, 8, 8, seq);
  for (int64_t b = 0; b < kBlocks; ++b)
    x = ctx.block(b, {x}, {}, 1, [&, b](const Tensors& in) {
      return Tensors{in[0] +
                     at::silu(at::silu(ctx.linear(in[0], weights[static_cast<size_t>(b)], 0, seq)).sin())};
    })[0];
  x.sum().backward();
  return info->most();
}

TEST(Recompute, LowersThePeakOfActivationsByWhatItRunsAgain) {
  const int64_t none = peak_bytes(false, {}), all = peak_bytes(true, core::json::object()),
                half = peak_bytes(true, {{"every", 2}});
  RecordProperty("none", std::to_string(none));
  RecordProperty("half", std::to_string(half));
  RecordProperty("all", std::to_string(all));
  EXPECT_LT(static_cast<double>(all), 0.5 * static_cast<double>(none));
  EXPECT_NEAR(static_cast<double>(half) / (static_cast<double>(none + all) / 2), 1, 0.1);
}

// Eight attentions of 256 tokens, some of which see no key: each keeps its probabilities, 512 KiB.
int64_t peak_bytes_of_attention(const char* mode) {
  core::MeshOwner mesh;
  test::Instance<kinora_parallel> strategy("parallel/recompute", {{"mode", mode}}, mesh.abi());
  const kinora_link* link = nullptr;
  check(strategy->link(strategy.self(), &link));
  core::Chain chain({}, {link});
  const Context<Tensor> ctx(chain.head());
  chain.ready();
  chain.begin({sizeof(kinora_pass), 0, 0, 0, 0, 0, 0, 1});
  const auto info = std::make_shared<Peak>();
  const c10::DebugInfoGuard measure(c10::DebugInfoKind::PROFILER_STATE, info);
  Attention<Tensor> how;
  how.name = "attention";
  how.scale = 1;
  how.kv_valid = at::ones({1, 256}, at::kBool);
  how.kv_valid.narrow(1, 250, 6).fill_(false);
  Tensor x = at::ones({1, 256, 1, 4}, at::kDouble).set_requires_grad(true);
  for (int i = 0; i < 8; ++i) x = ctx.attention(x, x, x, how);
  x.sum().backward();
  return info->most();
}

TEST(Recompute, SelectivelyKeepsNoProbabilities) {
  const int64_t kept = peak_bytes_of_attention("block"), again = peak_bytes_of_attention("selective");
  EXPECT_GT(kept, 8 * 256 * 256 * 8);
  EXPECT_LT(again, 4 * 256 * 256 * 8) << "those of one attention, and their gradients";
}

TEST(Recompute, AnErrorOfTheSecondRunReachesTheCallerOfBackward) {
  Chained s(true);
  s.watch.fails_at_run = 2;
  const Data d = data();
  const Tensor y = s.forward(d.x, d.condition);
  try {
    y.sum().backward();
    FAIL() << "backward returned";
  } catch (const std::exception& e) {
    EXPECT_NE(std::string(e.what()).find("block 1 has no memory left"), std::string::npos) << e.what();
  }
  EXPECT_EQ(s.chain->pass().recompute, 0u);
}

TEST(Strategies, OfOneProcessHaveTheAxisAndLinkTheyShould) {
  core::MeshOwner mesh;
  for (const auto& [id, axis, links] : {std::tuple{"parallel/single", "", false},
                                        {"parallel/ddp", "dp", false},
                                        {"parallel/recompute", "", true}}) {
    test::Instance<kinora_parallel> s(id, core::json::object(), mesh.abi());
    const kinora_link* link = nullptr;
    check(s->link(s.self(), &link));
    EXPECT_STREQ(s->axis(s.self()), axis) << id;
    EXPECT_EQ(link != nullptr, links) << id;
  }
}

}  // namespace
}  // namespace kinora
