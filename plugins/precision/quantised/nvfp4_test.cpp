// Which layers are low, and when; what the noise depends on. Numbers are compared with NumPy's by
// tests/oracle/precision_oracle.py.
#include <cmath>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/chain/chain.hpp"
#include "kinora/abi/precision.h"
#include "kinora/aten.hpp"
#include "kinora/context.hpp"
#include "kinora/link.hpp"
#include "plugins/precision/quantised/high.hpp"
#include "plugins/precision/quantised/tokens.hpp"
#include "tests/support/plugins.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::quantised {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Layer> model_of(int64_t blocks) {
  std::vector<Layer> out{{"time", -1}, {"embed", 0}};
  for (int64_t b = 1; b <= blocks; ++b)
    for (const char* name : {"qkv", "fc"}) out.push_back({"blocks." + std::to_string(b) + "." + name, b});
  out.push_back({"head", blocks + 1});
  return out;
}
std::string high_of(int64_t blocks, const std::vector<std::string>& patterns) {
  const auto layers = model_of(blocks);
  return text_of(layers, high_layers(patterns, layers, blocks + 1), blocks + 1);
}

TEST(High, IsEmbeddingHeadAndTheFirstAndLastBlocks) {
  EXPECT_EQ(high_of(20, {"embedding", "head", "first 2", "last 15%"}),
            "time, embed; all of block 0, block 1, block 17, block 18, block 19, the head");
  EXPECT_EQ(high_of(4, {"last 15%"}), "all of block 3");
  EXPECT_EQ(high_of(3, {"first 0", "last 15%"}), "") << "0.45 blocks";
  EXPECT_EQ(high_of(2, {"first 9", "*.2.fc"}), "all of block 0, block 1");
  EXPECT_EQ(high_of(2, {"blocks.*.fc"}), "blocks.*.fc");
  EXPECT_EQ(high_of(3, {"blocks.*.fc", "first 1"}), "blocks.*.fc; all of block 0");
  EXPECT_EQ(high_of(3, {"blocks.1.fc", "blocks.3.fc"}), "blocks.1.fc, blocks.3.fc");
  EXPECT_EQ(high_of(2, {}), "");
}

TEST(High, ANameIsThatOfAWeightOrOfItsModule) {
  const std::vector<Layer> layers{{"a.fc1.weight", 1}, {"a.fc2.weight", 1}, {"b.fc1.weight", 2}};
  for (const char* same : {"a.fc1", "a.fc1.weight"})
    EXPECT_THAT(high_layers({same}, layers, 3), ElementsAre(true, false, false)) << same;
  for (const char* same : {"*.fc1", "*.fc1.weight"})
    EXPECT_THAT(high_layers({same}, layers, 3), ElementsAre(true, false, true)) << same;
  EXPECT_THAT(test::refusal([&] { high_layers({"fc1"}, layers, 3); }),
              HasSubstr("'b.fc1.weight', with or without .weight, as `kinora convert --high` takes it"));
}

TEST(High, RefusesAPatternThatNoLayerHas) {
  EXPECT_THAT(test::refusal([] { high_of(2, {"*.fc2"}); }), HasSubstr("no layer is called '*.fc2'"));
  EXPECT_EQ(high_of(2, {"first 1e30"}), high_of(2, {"first 2"}));
  EXPECT_THAT(test::refusal([] { high_of(2, {"last inf"}); }),
              HasSubstr("'last inf' has no count of blocks"));
  EXPECT_THAT(
      test::refusal([] {
        high_of(2, {"*.fc2", "head", "first two"});
      }),
      AllOf(HasSubstr("no layer is called '*.fc2'"), HasSubstr("'first two' has no count of blocks")));
  EXPECT_THAT(test::refusal([] { high_of(2, {"last 15 %"}); }), HasSubstr("write 'last 2' or 'last 15%'"));
  for (const char* wrong : {"last 150%", "first 2.5"})
    EXPECT_THAT(test::refusal([&] { high_of(2, {wrong}); }),
                HasSubstr("must be a whole number of blocks, or a share up to 100%"));
}

TEST(Tokens, AreRunsInTheOrderOfOneProcess) {
  const Tokens t = tokens_of({16, 17, -1, 0, 1, 2, -1});
  EXPECT_THAT(t.order, ElementsAre(3, 4, 5, 0, 1));
  ASSERT_EQ(t.runs.size(), 2u);
  EXPECT_EQ(t.runs[0].row, 3);
  EXPECT_EQ(t.runs[1].index, 16);
  EXPECT_EQ(cut_tile(t, 1, -1), "");
  EXPECT_EQ(cut_tile(t, 16, 18), "tokens 0 to 2") << "13 of the first tile are elsewhere";
  EXPECT_EQ(cut_tile(tokens_of({16, 17}), 16, 18), "");
  EXPECT_EQ(cut_tile(tokens_of({16, 17}), 16, 19), "tokens 16 to 17");
  EXPECT_EQ(cut_tile(tokens_of({1, 2, 3}), 2, 4), "tokens 1 to 3");
}

// Rows 0 and 2 are of sample 0, which has 18 tokens, row 3 of sample 1; row 1 is padding.
TEST(Tokens, OfASampleAreCountedFromItsFirst) {
  const auto samples = samples_of({17, -1, 16, 20}, {0, -1, 0, 1}, {0, 18, 21, 30});
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_THAT(samples[0].rows, ElementsAre(0, 2));
  EXPECT_THAT(samples[0].tokens.order, ElementsAre(1, 0));
  EXPECT_EQ(cut_tile(samples[0].tokens, 16, samples[0].length), "") << "the last tile of the sample, whole";
  EXPECT_THAT(samples[1].rows, ElementsAre(3));
  EXPECT_EQ(samples[1].tokens.stretches[0].index, 2);
  EXPECT_EQ(cut_tile(samples[1].tokens, 16, samples[1].length), "tokens 2 to 2");
  EXPECT_TRUE(samples[2].rows.empty());
  EXPECT_EQ(samples[2].length, 9);
}

TEST(Tokens, SizeWithoutCutsIsADivisorOrAFrame) {
  EXPECT_EQ(size_without_cuts(16, 64, 6, 1), "2 ranks of a sequence") << "4 is no divisor";
  EXPECT_EQ(size_without_cuts(16, 64, 8, 2), "2 ranks of a sequence");
  EXPECT_EQ(size_without_cuts(16, 48, 4, 1), "a frame of 64 tokens instead of 48");
  EXPECT_EQ(size_without_cuts(16, 48, 3, 1), "1 rank of a sequence") << "of frames as they should be";
  EXPECT_EQ(size_without_cuts(16, 0, 4, 1), "1 rank of a sequence");
}

// A layer of tokens in a block of a model of ten, behind a precision's link.
struct LayerOf {
  test::Instance<kinora_precision> precision;
  const kinora_link* link = nullptr;
  std::unique_ptr<core::Chain> chain;
  kinora_param w = 0;

  explicit LayerOf(const char* id, const core::json& given = core::json::object(), int64_t block = 5)
      : precision(id, given) {
    check(precision->link(precision.self(), &link));
    chain = std::make_unique<core::Chain>(core::ChainOptions{.seed = 2}, std::vector{link});
    w = context().parameter({.name = "w", .shape = {48, 32}, .init = Init::normal(0.2), .block = block});
    context().parameter({.name = "end", .shape = {1}, .block = 11});
    chain->ready();
  }
  Context<at::Tensor> context() const { return Context<at::Tensor>(chain->head()); }
  // Result and gradients, in a row.
  at::Tensor numbers(int64_t step = 0, int64_t first_sample = 0, bool tokens = true, double spoil = 0) {
    at::manual_seed(1);
    at::Tensor x = at::randn({2, 40, 32}), g = at::randn({2, 40, 48});
    if (spoil != 0) x[1][3][4] = spoil;
    x.set_requires_grad(true);
    chain->begin({.struct_size = sizeof(kinora_pass),
                  .first_sample = first_sample,
                  .seed = 7,
                  .step = step,
                  .steps = 9});
    kinora_seq seq = 0;
    const at::Tensor in = tokens ? context().sequence(x, 40, 1, 1, seq) : x;
    at::Tensor leaf = chain->leaves()[0].tensor;
    leaf.mutable_grad() = at::Tensor();
    const at::Tensor y = context().linear(in, w, 0, seq);
    y.backward(g);
    return at::cat({y.flatten(), x.grad().flatten(), leaf.grad().flatten()}).detach().clone();
  }
};

at::Tensor in_bf16() { return LayerOf("precision/bf16").numbers(); }

TEST(Nvfp4, HighLayersAreThoseOfBf16) {
  const at::Tensor bf16 = in_bf16();
  EXPECT_FALSE(LayerOf("precision/nvfp4").numbers().equal(bf16));
  for (const int64_t block : {-1, 0, 1, 2, 9, 10})
    EXPECT_TRUE(LayerOf("precision/nvfp4", core::json::object(), block).numbers().equal(bf16)) << block;
  EXPECT_FALSE(LayerOf("precision/nvfp4", core::json::object(), 8).numbers().equal(bf16));
  EXPECT_TRUE(LayerOf("precision/nvfp4", {{"high", {"w"}}}).numbers().equal(bf16));
  EXPECT_FALSE(LayerOf("precision/nvfp4", {{"high", core::json::array()}}, 1).numbers().equal(bf16));
}

TEST(Nvfp4, SharedTensorsAreThoseOfBf16) {
  EXPECT_TRUE(
      LayerOf("precision/nvfp4").numbers(0, 0, false).equal(LayerOf("precision/bf16").numbers(0, 0, false)));
}

// A context projection and a modulation stay high in each block: they are listed, and not counted as low.
TEST(Nvfp4, TellsAfterTheFirstForwardWhatIsLow) {
  const test::Instance<kinora_precision> precision("precision/nvfp4", {{"high", {"*.fc"}}});
  const kinora_link* link = nullptr;
  check(precision->link(precision.self(), &link));
  core::Chain chain(core::ChainOptions{}, {link});
  const Context<at::Tensor> context(chain.head());
  std::map<std::string, kinora_param> w;
  for (const int64_t block : {1, 2})
    for (const char* of : {"qkv", "kv", "fc"}) {
      const std::string name = "blocks." + std::to_string(block - 1) + "." + of;
      w[name] =
          context.parameter({.name = name, .shape = {32, 32}, .init = Init::normal(0.2), .block = block});
    }
  chain.ready();
  const auto forward = [&] {
    chain.begin({.struct_size = sizeof(kinora_pass)});
    kinora_seq seq = 0;
    at::Tensor x = context.sequence(at::ones({1, 16, 32}), 16, 1, 1, seq);
    for (const auto& [name, id] : w)
      x = x + context.linear(x, id, 0, name.ends_with("kv") && !name.ends_with("qkv") ? 0 : seq);
    context.gather(x, seq);
  };
  const auto said = [&] {
    testing::internal::CaptureStderr();
    forward();
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said(), HasSubstr("NVFP4: 2 of 6 weights are low; high: blocks.*.kv, blocks.*.fc\n"));
  EXPECT_THAT(said(), testing::Not(HasSubstr("NVFP4: ")));
}

TEST(Nvfp4, UntilAStepTrainingIsLow) {
  LayerOf layer("precision/nvfp4", {{"until", 3}});
  const at::Tensor bf16 = in_bf16();
  EXPECT_FALSE(layer.numbers(2).equal(bf16));
  EXPECT_TRUE(layer.numbers(3).equal(bf16));
}

TEST(Nvfp4, NoiseDependsOnSampleAndStepAlone) {
  LayerOf layer("precision/nvfp4"), other("precision/nvfp4");
  const at::Tensor once = layer.numbers(4, 6);
  EXPECT_TRUE(layer.numbers(4, 6).equal(once));
  EXPECT_TRUE(other.numbers(4, 6).equal(once));
  EXPECT_FALSE(layer.numbers(5, 6).equal(once));
  EXPECT_FALSE(layer.numbers(4, 8).equal(once));
  LayerOf nearest("precision/nvfp4", {{"stochastic_gradients", false}});
  EXPECT_TRUE(nearest.numbers(4, 6).equal(nearest.numbers(5, 8)));
}

// Several samples in one row, each with a scale, tiles of tokens and noise of its own: the result and the
// gradient of x are those that it has alone, and the gradient of the weight is the sum of theirs.
TEST(PackedRow, IsItsSamplesOneByOne) {
  const std::vector<std::array<int64_t, 3>> sizes{{2, 3, 3}, {1, 7, 1}, {4, 2, 5}};
  const std::vector<int64_t> numbers{12, 3, 40};
  for (const char* id : {"precision/nvfp4", "precision/fp8"}) {
    SCOPED_TRACE(id);
    LayerOf layer(id, {{"high", core::json::array()}, {"stream", "float64"}});
    at::manual_seed(1);
    std::vector<at::Tensor> x, g;
    double magnitude = 1;
    for (const auto& [frames, rows, cols] : sizes) {
      x.push_back(at::randn({1, frames * rows * cols, 32}, at::kDouble) * magnitude);
      g.push_back(at::randn({1, frames * rows * cols, 48}, at::kDouble) / magnitude);
      magnitude *= 1000;
    }
    struct Numbers {
      at::Tensor y, x, w;
    };
    at::Tensor leaf = layer.chain->leaves()[0].tensor;
    const auto numbers_of = [&](const at::Tensor& values, const at::Tensor& gradient, auto begin) {
      const at::Tensor in = values.clone().set_requires_grad(true);
      kinora_seq seq = 0;
      const at::Tensor tokens = begin(in, seq);
      leaf.mutable_grad() = at::Tensor();
      const at::Tensor y = layer.context().gather(layer.context().linear(tokens, layer.w, 0, seq), seq);
      y.backward(gradient);
      return Numbers{y.detach(), in.grad().clone(), leaf.grad().to(at::kDouble)};
    };
    const kinora_pass pass{
        .struct_size = sizeof(kinora_pass), .first_sample = 64, .seed = 7, .step = 2, .steps = 9};
    const Numbers row = numbers_of(at::cat(x, 1), at::cat(g, 1), [&](const at::Tensor& in, kinora_seq& seq) {
      layer.chain->begin(pass, numbers);
      return layer.context().packed(in, sizes, seq);
    });
    at::Tensor w = at::zeros_like(row.w);
    int64_t first = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const Numbers one = numbers_of(x[i], g[i], [&](const at::Tensor& in, kinora_seq& seq) {
        layer.chain->begin(pass, {numbers[i]});
        return layer.context().sequence(in, sizes[i][0], sizes[i][1], sizes[i][2], seq);
      });
      const auto far = [&](const at::Tensor& all, const at::Tensor& own) {
        return ((all.narrow(1, first, own.size(1)) - own).abs().max() / own.abs().max()).item<double>();
      };
      EXPECT_LT(far(row.y, one.y), 1e-12) << i;
      EXPECT_LT(far(row.x, one.x), 1e-12) << i;
      w += one.w;
      first += x[i].size(1);
    }
    EXPECT_LT(((row.w - w).abs().max() / w.abs().max()).item<double>(), 1e-5) << "a float32 leaf";
  }
}

TEST(Nvfp4, ASampleWithAnInfinityBecomesNanAndTheOtherDoesNot) {
  LayerOf layer("precision/nvfp4");
  const at::Tensor spoilt = layer.numbers(0, 0, true, INFINITY), sound = layer.numbers();
  const int64_t of_sample = 40 * 48;
  EXPECT_TRUE(spoilt.narrow(0, 0, of_sample).equal(sound.narrow(0, 0, of_sample)));
  EXPECT_TRUE(spoilt.narrow(0, of_sample, of_sample).isnan().all().item<bool>());
}

TEST(Nvfp4, EachOptionChangesTheNumbers) {
  const at::Tensor usual = LayerOf("precision/nvfp4").numbers();
  for (const core::json& option :
       {core::json{{"activations", "static_6"}}, core::json{{"weights", "mse"}},
        core::json{{"gradients", "none"}}, core::json{{"square_weights", false}},
        core::json{{"stochastic_gradients", false}}, core::json{{"gradient_rht", false}}})
    EXPECT_FALSE(LayerOf("precision/nvfp4", option).numbers().equal(usual)) << option.dump();
}

// The end of a chain, which notes what attention is given.
struct End : Link<at::Tensor> {
  std::vector<at::Tensor> heads, factors;
  End() : Link(KINORA_LEVEL_BASE) {}
  kinora_param parameter(const kinora_param_spec&) override { return 1; }
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override {
    heads = {q, k, v};
    for (auto* factor : {how.q_factor, how.k_factor, how.v_factor})
      factors.push_back(borrow<at::Tensor>(factor));
    return q;
  }
};

// With them the base can multiply in FP8. A float64 stream is for comparing layouts, and stays exact.
TEST(Fp8, AttentionGivesHeadsOfE4m3WithTheirFactors) {
  for (const char* stream : {"float32", "bfloat16", "float64"}) {
    SCOPED_TRACE(stream);
    const core::json options{{"attention", "fp8"}, {"high", core::json::array()}, {"stream", stream}};
    const test::Instance<kinora_precision> precision("precision/fp8", options);
    End end;
    const kinora_link* link = nullptr;
    check(precision->link(precision.self(), &link));
    kinora_chain chain{};
    chain.struct_size = sizeof chain;
    chain.next = chain.head = end.get()->context;
    check(link->bind(link->context->self, &chain));
    const Context<at::Tensor> context(link->context);
    const int64_t shape[] = {32, 32};
    kinora_param_spec weight{};
    weight.struct_size = sizeof weight;
    weight.name = "w", weight.shape = shape, weight.ndim = 2, weight.block = 1, weight.shards = 1;
    context.parameter(weight);
    check(link->declared(link->context->self));
    const at::Tensor x = at::randn({2, 5, 4, 8}) * at::tensor({1.f, 1e3f, 0.f, 1e-38f}).view({1, 1, 4, 1});
    const auto given = x.to(std::string(stream) == "float32" ? at::kFloat
                            : *stream == 'b'                 ? at::kBFloat16
                                                             : at::kDouble);
    kinora_attention how{};
    how.struct_size = sizeof how;
    how.block = 1;
    context.attention(given, given, given, how);
    ASSERT_EQ(end.factors.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      ASSERT_EQ(end.factors[i].defined(), given.scalar_type() != at::kDouble);
      if (!end.factors[i].defined()) continue;
      EXPECT_EQ(end.factors[i].sizes(), (std::vector<int64_t>{2, 1, 4, 1}));
      const at::Tensor codes = end.heads[i].to(at::kFloat) * end.factors[i],
                       nearest = codes.to(at::kFloat8_e4m3fn).to(at::kFloat);
      EXPECT_TRUE(at::isfinite(end.heads[i]).all().item<bool>());
      EXPECT_TRUE(at::allclose(codes.narrow(2, 0, 3),
                               nearest.narrow(2, 0, 3),  // the last head is of subnormal numbers
                               given.scalar_type() == at::kFloat ? 1e-6 : 5e-3, 0));
      EXPECT_EQ(nearest.abs().amax({1, 3}).narrow(1, 0, 2).min().item<float>(), 448);
    }
  }
}

}  // namespace
}  // namespace kinora::quantised
