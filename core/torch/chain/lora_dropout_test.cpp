// Dropout of LoRA matrices: placed as in PEFT, with a mask that is the same on every rank, in every
// microbatch and in a block's second run.
#include <cmath>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/plugin/host.hpp"
#include "core/torch/chain/chain.hpp"
#include "core/torch/tensors/tensors_api.hpp"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"

namespace kinora::core {
namespace {

using at::Tensor;
using testing::HasSubstr;
constexpr int64_t D = 6;
constexpr double kDropout = 0.25;

// Two adapted layers of D channels. A and B have ones on the diagonal, so an adapter adds what dropout keeps.
struct Layers {
  Chain chain;
  Context<Tensor> context;
  kinora_param m, n;

  explicit Layers(double dropout = kDropout, Role role = Role::column,
                  std::vector<const kinora_link*> links = {}, int64_t token_multiple = 1)
      : chain((serve_tensors(), with(dropout, token_multiple)), std::move(links)), context(chain.head()) {
    m = context.parameter({"m.weight", {D, D}, Init::normal(1), role});
    n = context.parameter({"n.weight", {D, D}, Init::normal(1), role});
    chain.ready();
    for (auto& leaf : chain.leaves())
      if (is_lora(leaf.name)) leaf.tensor.detach().copy_(at::eye(leaf.tensor.size(0), leaf.tensor.size(1)));
  }
  static ChainOptions with(double dropout, int64_t token_multiple) {
    ChainOptions out;
    out.token_multiple = token_multiple;
    out.dtype = at::kDouble;
    out.lora = LoraOptions{.rank = D, .alpha = D, .targets = {"m", "n"}, .dropout = dropout};
    return out;
  }
  void begin(int64_t first_sample, uint64_t seed = 5, uint32_t no_grad = 0) {
    chain.begin({sizeof(kinora_pass), 0, no_grad, 0, first_sample, 0, 0, seed});
  }
  // x [B, 16, D], tokens of a video of 2 frames of 2 x 4.
  Tensor operator()(const Tensor& x, kinora_param layer) {
    kinora_seq seq = 0;
    const Tensor local = context.sequence(x, 2, 2, 4, seq);
    return context.linear(local, layer, 0, seq);
  }
  Tensor weight(kinora_param layer) { return context.value(layer).detach(); }
  Tensor& leaf(const std::string& name) {
    for (auto& l : chain.leaves())
      if (l.name == name) return l.tensor;
    throw std::out_of_range(name);
  }
  // The adapter's contribution for inputs of one: 0 where dropped, else 1 / (1 - dropout), up to rounding.
  Tensor added(const Tensor& y, kinora_param layer) { return (y - weight(layer).sum(1)).detach(); }
  Tensor mask(const Tensor& y, kinora_param layer) {
    return added(y, layer).gt(0.5).to(at::kDouble) / (1 - kDropout);
  }
  Tensor mask(int64_t batch, kinora_param layer) {
    return mask((*this)(at::ones({batch, 16, D}, at::kDouble), layer), layer);
  }
};

TEST(LoraDropout, LeavesOutItsShareAndScalesTheRest) {
  Layers layers;
  layers.begin(0);
  const Tensor y = layers(at::ones({64, 16, D}, at::kDouble), layers.m), added = layers.added(y, layers.m),
               out = added.abs().lt(1e-12);
  EXPECT_TRUE(out.logical_or((added - 1 / (1 - kDropout)).abs().lt(1e-12)).all().item<bool>());
  const double n = static_cast<double>(added.numel()), share = out.sum().item<double>() / n;
  EXPECT_NEAR(share, kDropout, 4 * std::sqrt(kDropout * (1 - kDropout) / n)) << "four standard deviations";
}

// x W^T + scale (mask x) A^T B^T, and its gradients.
TEST(LoraDropout, IsWherePeftHasIt) {
  Layers layers;
  layers.begin(3);
  const Tensor mask = layers.mask(2, layers.m);
  Tensor &a = layers.leaf("m.lora_A.weight"), &b = layers.leaf("m.lora_B.weight");
  at::manual_seed(1);
  for (Tensor* t : {&a, &b}) t->detach().copy_(at::randn({D, D}));
  const Tensor x = at::randn({2, 16, D}, at::kDouble).set_requires_grad(true), g = at::randn_like(x);
  const Tensor y = layers(x, layers.m), w = layers.weight(layers.m);
  const auto near = [](const Tensor& got, const Tensor& want) {
    EXPECT_LT((got - want).abs().max().item<double>(), 1e-12);
  };
  const Tensor kept = (x * mask).detach(), at_a = g.matmul(b.detach());
  near(y, x.matmul(w.t()) + kept.matmul(a.t()).matmul(b.t()));
  y.backward(g);
  near(a.grad(), at_a.flatten(0, 1).t().mm(kept.flatten(0, 1)));
  near(b.grad(), g.flatten(0, 1).t().mm(kept.matmul(a.detach().t()).flatten(0, 1)));
  near(x.grad(), g.matmul(w) + at_a.matmul(a.detach()) * mask);
}

TEST(LoraDropout, IsAFunctionOfSampleSeedAndModule) {
  Layers layers;
  layers.begin(10);
  const Tensor mask = layers.mask(4, layers.m), other = layers.mask(4, layers.n);
  EXPECT_TRUE(at::equal(mask, layers.mask(4, layers.m)));
  layers.begin(12);
  EXPECT_TRUE(at::equal(mask.narrow(0, 2, 2), layers.mask(2, layers.m)));
  const auto apart = [&](const Tensor& a, const Tensor& b) {  // independent: 2 p (1 - p)
    EXPECT_NEAR(a.ne(b).to(at::kDouble).mean().item<double>(), 2 * kDropout * (1 - kDropout), 0.1);
  };
  apart(mask, other);
  apart(mask[0], mask[1]);
  apart(mask.select(1, 0), mask.select(1, 1));
  layers.begin(10, 6);
  apart(mask, layers.mask(4, layers.m));
}

TEST(LoraDropout, IsOfTrainingAlone) {
  Layers layers, without(0);
  layers.begin(0, 5, /*no_grad=*/1);
  without.begin(0);
  const Tensor x = at::randn({2, 16, D}, at::kDouble);
  EXPECT_TRUE(at::equal(layers(x, layers.m), without(x, without.m)));
  layers.begin(0);
  EXPECT_FALSE(at::equal(layers(x, layers.m), without(x, without.m)));
}

// The second half of the tokens, as on a rank of context parallelism.
class SecondHalf final : public Link<Tensor> {
 public:
  SecondHalf() : Link(KINORA_LEVEL_CONTEXT) { skip_inherited<SecondHalf>(); }
  Tensor sequence(const Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override {
    const Tensor table = borrow<Tensor>(spec.table).narrow(1, 8, 8);
    auto cut = spec;
    cut.table = handle(table);
    return next.sequence(x.narrow(1, 8, 8), cut, seq);
  }
};

TEST(LoraDropout, OfTokensThatAreCutIsTheWholes) {
  SecondHalf link;
  Layers whole, half(kDropout, Role::column, {link.get()});
  whole.begin(7);
  half.begin(7);
  EXPECT_TRUE(at::equal(half.mask(2, half.m), whole.mask(2, whole.m).narrow(1, 8, 8)));
}

// Conditioning, the same on every rank: [B, D] and [B, L, D] without a sequence.
TEST(LoraDropout, OfSharedTensorsGoesBySampleAndPlace) {
  Layers layers;
  const auto mask = [&](at::IntArrayRef shape, int64_t first) {
    layers.begin(first);
    return layers.mask(layers.context.linear(at::ones(shape, at::kDouble), layers.m, 0, 0), layers.m);
  };
  const Tensor all = mask({3, 5, D}, 0);
  EXPECT_TRUE(at::equal(mask({3, D}, 0), all.select(1, 0)));
  EXPECT_TRUE(at::equal(mask({1, 5, D}, 2), all.narrow(0, 2, 1)));
}

// Masks of samples of which each is alone in its batch.
Tensor alone(int64_t sample, int64_t frames, int64_t rows, int64_t cols) {
  Layers layers;
  layers.begin(sample);
  kinora_seq seq = 0;
  const Tensor x =
      layers.context.sequence(at::ones({1, frames * rows * cols, D}, at::kDouble), frames, rows, cols, seq);
  return layers.mask(layers.context.linear(x, layers.m, 0, seq), layers.m);
}

// Buckets and packed rows take the samples of a step in any order.
TEST(LoraDropout, OfASampleIsTheSameInEveryBatchBucketAndPackedRow) {
  Layers bucket;
  bucket.chain.begin({sizeof(kinora_pass), 0, 0, 0, 100, 0, 0, 5}, {9, 104, 31});
  const Tensor batch = bucket.mask(3, bucket.m);
  for (const auto& [row, sample] : {std::pair<int64_t, int64_t>{0, 9}, {1, 104}, {2, 31}})
    EXPECT_TRUE(at::equal(batch.narrow(0, row, 1), alone(sample, 2, 2, 4))) << sample;

  // The last 5 tokens are padding.
  Layers packed(kDropout, Role::column, {}, 16);
  packed.chain.begin({sizeof(kinora_pass), 0, 0, 0, 100, 0, 0, 5}, {31, 7, 104});
  kinora_seq seq = 0;
  const Tensor x =
      packed.context.packed(at::ones({1, 27, D}, at::kDouble), {{2, 2, 4}, {1, 3, 1}, {4, 1, 2}}, seq);
  ASSERT_EQ(x.size(1), 32);
  const Tensor row = packed.mask(packed.context.linear(x, packed.m, 0, seq), packed.m);
  EXPECT_TRUE(at::equal(row.narrow(1, 0, 16), alone(31, 2, 2, 4)));
  EXPECT_TRUE(at::equal(row.narrow(1, 16, 3), alone(7, 1, 3, 1)));
  EXPECT_TRUE(at::equal(row.narrow(1, 19, 8), alone(104, 4, 1, 2)));

  // Conditions of videos, of their frames (all have their sample's) and texts of 3 tokens each.
  const auto shared = [&](Layers& of, at::IntArrayRef shape) {
    return of.mask(of.context.linear(at::ones(shape, at::kDouble), of.m, 0, 0), of.m);
  };
  const auto shared_alone = [&](int64_t sample, int64_t tokens) {
    Layers one;
    one.begin(sample);
    return shared(one, {1, tokens, D});
  };
  const Tensor of_videos = shared(packed, {3, D}), of_frames = shared(packed, {1, 7, D}),
               texts = shared(packed, {1, 9, D});
  const int64_t samples[] = {31, 7, 104}, frames[] = {2, 1, 4};
  int64_t frame = 0;
  for (int64_t i = 0; i < 3; ++i) {
    const Tensor condition = shared_alone(samples[i], 1)[0];
    EXPECT_TRUE(at::equal(of_videos.narrow(0, i, 1), condition)) << i;
    for (int64_t f = 0; f < frames[i]; ++f)
      EXPECT_TRUE(at::equal(of_frames.select(1, frame++), condition)) << i << f;
    EXPECT_TRUE(at::equal(texts.narrow(1, 3 * i, 3), shared_alone(samples[i], 3))) << i;
  }
  EXPECT_THROW(shared(packed, {1, 8, D}), Error) << "whose rows these are is not known";
}

// Half of the input channels of a ROW layer.
class HalfOfRows final : public Link<Tensor> {
 public:
  HalfOfRows() : Link(KINORA_LEVEL_TENSOR) { skip_inherited<HalfOfRows>(); }
  kinora_param parameter(const kinora_param_spec& spec) override {
    auto cut = spec;
    if (spec.role == KINORA_ROLE_ROW) cut.shards = 2;
    return next.parameter(cut);
  }
};

TEST(LoraDropout, OfChannelsThatAreCutIsRefused) {
  HalfOfRows link;
  Layers layers(kDropout, Role::row, {link.get()});
  layers.begin(0);
  try {
    layers.context.linear(at::ones({1, 16, D / 2}, at::kDouble), layers.m, 0, 0);
    FAIL() << "was not refused";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("lora.dropout.m: 3 of the layer's 6 input channels are here"));
  }
}

TEST(LoraDropout, OfOneOrMoreIsRefused) {
  for (const double p : {1.0, -0.1, std::nan("")}) EXPECT_THROW(Layers{p}, Error) << p;
}

}  // namespace
}  // namespace kinora::core
