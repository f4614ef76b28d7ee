// model/ar against the formulas and transformers' Llama, decoding through a KV cache against the whole
// forward.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/network/cache_instance.hpp"
#include "core/torch/network/model.hpp"
#include "kinora/abi/model.h"
#include "tests/support/oracle.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/windowed.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

using at::Tensor;
constexpr const char* kFile = "ar.safetensors";

// Through Model, which passes the model's visibility to the chain.
struct Ar {
  explicit Ar(const core::json& given, at::ScalarType dtype = at::kDouble,
              std::vector<const kinora_link*> links = {})
      : component(core::or_throw(test::plugins().open("model/ar"))),
        network(component, core::or_throw(core::Options::make(*component.spec, given)), chain(dtype),
                std::move(links)) {
    core::NamedTensors weights;
    for (const auto& p : network.chain().parameters()) weights[p.name] = test::oracle_weight(p.name, p.shape);
    core::load_values(network.chain().parameters(), network.chain().leaves(), weights);
  }
  static core::ChainOptions chain(at::ScalarType dtype) {
    core::ChainOptions o;
    o.dtype = dtype;
    return o;
  }
  Tensor operator()(const core::NamedTensors& in) { return network.forward(in)[0]; }
  core::Component component;
  core::Model network;
};

// cache/kv with these options.
struct KvCache : core::CacheInstance {
  explicit KvCache(int64_t tokens = 0, const core::json& given = core::json::object())
      : KvCache(core::or_throw(test::plugins().open("cache/kv")), tokens, given) {}

 private:
  KvCache(const core::Component& component, int64_t tokens, const core::json& given)
      : CacheInstance(component, core::or_throw(core::Options::make(*component.spec, given)), tokens) {}
};

class ArModel : public ::testing::TestWithParam<std::tuple<const char*, at::ScalarType>> {
 protected:
  std::string name() const { return std::get<0>(GetParam()); }
  at::ScalarType dtype() const { return std::get<1>(GetParam()); }
  core::NamedTensors inputs() const {
    core::NamedTensors in{{"codes", oracle.exact("codes")}};
    if (oracle.has("text_mask")) in["text_mask"] = oracle.exact("text_mask");
    const auto& shapes = oracle.options["shapes"];
    if (shapes.contains("text"))
      in["text"] = test::numbers(name() + ".text", shapes["text"].get<std::vector<int64_t>>())
                       .to(dtype())
                       .set_requires_grad(true);
    return in;
  }
  test::Oracle oracle{kFile, std::get<0>(GetParam())};
};

TEST_P(ArModel, EqualsTheFormulasForwardAndBackward) {
  const double bound = dtype() == at::kDouble ? 1e-12 : 1e-5;
  const test::Recompute recompute;
  double worst = 0;
  for (const auto& links : {std::vector<const kinora_link*>{}, {recompute.get()}}) {
    Ar ar(oracle.options["options"], dtype(), links);
    const auto in = inputs();
    const Tensor output = ar(in);
    const auto compare = [&](const Tensor& found, const std::string& what) {
      const double apart = test::difference(found, oracle.exact(what));
      EXPECT_LT(apart, bound) << what;
      worst = test::worse(worst, apart);
    };
    compare(output, "output");
    output.backward(test::numbers(name() + ".grad_output", output.sizes()).to(dtype()));
    if (in.count("text")) compare(in.at("text").grad(), "grad.text");
    const auto wanted = oracle.under("grad.param.");
    size_t compared = 0;
    for (const auto& leaf : ar.network.chain().leaves()) {
      ASSERT_TRUE(leaf.tensor.grad().defined()) << leaf.name;
      if (!wanted.count(leaf.name)) continue;
      compare(leaf.tensor.grad(), "grad.param." + leaf.name);
      ++compared;
    }
    EXPECT_EQ(compared, wanted.size());
  }
  std::printf("          worst relative difference %.2g\n", worst);
}

using ArDecoding = ArModel;

// One token at a time, two branches (guidance) side by side: with text, and without.
TEST_P(ArDecoding, ThroughAKvCacheIsThatOfOneForward) {
  const at::NoGradGuard off;
  KvCache cache;
  Ar whole(oracle.options["options"]), step(oracle.options["options"], at::kDouble, {cache.link()});
  auto with = inputs(), without = inputs();
  without.erase("text"), without.erase("text_mask");
  const Tensor wanted[] = {whole(with), whole(without)};
  const Tensor video = with["codes"], codes = video.flatten(1);
  const Tensor grid = at::tensor({video.size(1), video.size(2), video.size(3)}, at::kLong);
  double worst = 0;
  for (int64_t i = 0; i < codes.size(1); ++i) {
    core::Frames frames;
    frames.start = i;
    step.network.chain().set_frames(frames);
    for (uint32_t branch = 0; branch < 2; ++branch) {
      auto in = branch == 0 ? with : without;
      in["codes"] = codes.narrow(1, std::max<int64_t>(i - 1, 0), 1).contiguous();
      in["grid"] = grid;
      in["position"] = at::full({1}, i, at::kLong);
      kinora_pass pass{};
      pass.struct_size = sizeof pass;
      pass.no_grad = 1;
      pass.branch = branch;
      step.network.chain().begin(pass);
      const double apart = test::difference(step(in), wanted[branch].narrow(1, i, 1));
      EXPECT_LT(apart, 1e-12) << "token " << i << ", branch " << branch;
      worst = test::worse(worst, apart);
      EXPECT_EQ(cache.tokens(0, branch), i + 1);
    }
  }
  std::printf("          worst relative difference %.2g\n", worst);
}

const auto kCases =
    ::testing::Values("plain", "grouped", "text", "masked_text", "tied", "llama", "llama_tied");
std::string named(const ::testing::TestParamInfo<ArModel::ParamType>& info) {
  return std::string(std::get<0>(info.param)) + c10::toString(std::get<1>(info.param));
}
INSTANTIATE_TEST_SUITE_P(Cases, ArModel,
                         ::testing::Combine(kCases, ::testing::Values(at::kDouble, at::kFloat)), named);
INSTANTIATE_TEST_SUITE_P(Cases, ArDecoding, ::testing::Combine(kCases, ::testing::Values(at::kDouble)),
                         named);

const core::json kSmall = {{"vocab_size", 9},      {"n_layers", 2},   {"dim", 24},
                           {"n_heads", 4},         {"n_kv_heads", 2}, {"head_dim", 6},
                           {"ffn_hidden_size", 16}};

TEST(ArCache, HoldsTheKeysAndValuesOfItsHeadsAndNoMore) {
  const at::NoGradGuard off;
  KvCache cache(12);
  Ar ar(kSmall, at::kDouble, {cache.link()});
  const core::NamedTensors in{{"codes", at::ones({2, 3, 2, 2}, at::kLong)}};
  const Tensor first = ar(in);
  EXPECT_EQ(cache.bytes(0), 2 * 2 * 2 * 12 * 2 * 6 * 8) << "layers, k and v, B, tokens, heads, d, float64";
  EXPECT_EQ(test::difference(ar(in), first), 0) << "from the beginning again: nothing old is seen";
  EXPECT_EQ(cache.tokens(0), 12);
  cache.reset(0);
  EXPECT_EQ(cache.bytes(0), 0);
}

// Every layer's keys come from what the layer below saw, so one wrong token would change all later ones.
TEST(ArCache, AWindowWithPinnedTokensIsAMaskInEveryLayer) {
  const at::NoGradGuard off;
  constexpr int64_t kPinned = 2, kWindow = 4;
  KvCache cache(0, {{"window", kWindow}});
  test::WindowedAttention mask(kPinned, kWindow);
  Ar step(kSmall, at::kDouble, {cache.link()}), masked(kSmall, at::kDouble, {mask.get()}), all(kSmall);
  const Tensor codes = at::arange(12, at::kLong).remainder(9).reshape({1, 3, 2, 2});
  const Tensor wanted = masked({{"codes", codes}});
  EXPECT_GT(test::difference(all({{"codes", codes}}), wanted), 1e-3)
      << "a mask without effect proves nothing";
  cache.pin(0, 0, kPinned);
  for (int64_t i = 0; i < 12; ++i) {
    core::Frames frames;
    frames.start = i;
    step.network.chain().set_frames(frames);
    const Tensor made = step({{"codes", codes.flatten(1).narrow(1, std::max<int64_t>(i - 1, 0), 1)},
                              {"grid", at::tensor({3, 2, 2}, at::kLong)},
                              {"position", at::full({1}, i, at::kLong)}});
    EXPECT_LT(test::difference(made, wanted.narrow(1, i, 1)), 1e-12) << "token " << i;
    EXPECT_EQ(cache.tokens(0), std::min(i + 1, kPinned + kWindow));
  }
}

// One chain makes two videos, a code of each in turn.
TEST(ArCache, SessionsInTurnAreSessionsAlone) {
  const at::NoGradGuard off;
  KvCache cache(12, {{"window", 4}});
  Ar ar(kSmall, at::kDouble, {cache.link()});
  const auto step = [&](uint64_t session, int64_t i) {
    core::Frames frames;
    frames.start = i;
    ar.network.chain().set_frames(frames);
    ar.network.chain().begin({.struct_size = sizeof(kinora_pass), .no_grad = 1, .session = session});
    const Tensor codes = (at::arange(12, at::kLong) * static_cast<int64_t>(session)).remainder(9);
    return ar({{"codes", codes.narrow(0, std::max<int64_t>(i - 1, 0), 1).unsqueeze(0)},
               {"grid", at::tensor({3, 2, 2}, at::kLong)},
               {"position", at::full({1}, i, at::kLong)}});
  };
  std::vector<Tensor> alone[2];
  for (uint64_t session : {1, 2}) {
    for (int64_t i = 0; i < 12; ++i) alone[session - 1].push_back(step(session, i));
    cache.reset(session);
  }
  EXPECT_GT(test::difference(alone[0].back(), alone[1].back()), 1e-3) << "two equal videos prove nothing";
  for (int64_t i = 0; i < 12; ++i)
    for (uint64_t session : {1, 2})
      EXPECT_TRUE(at::equal(step(session, i), alone[session - 1][static_cast<size_t>(i)]))
          << "code " << i << " of video " << session;
  EXPECT_EQ(cache.tokens(1), 4);
  EXPECT_EQ(cache.tokens(2), 4);
  EXPECT_EQ(cache.tokens(0), 0);
}

TEST(ArModelAlone, SeesNoCodeThatItPredicts) {
  Ar ar(kSmall);
  Tensor codes = at::arange(12, at::kLong).remainder(9).reshape({1, 3, 2, 2});
  const Tensor before = ar({{"codes", codes}});
  codes = codes.clone();
  codes.flatten()[5] = 8;
  const Tensor after = ar({{"codes", codes}});
  EXPECT_EQ(test::difference(after.narrow(1, 0, 6), before.narrow(1, 0, 6)), 0);
  EXPECT_GT(test::difference(after.narrow(1, 6, 1), before.narrow(1, 6, 1)), 1e-3);
}

TEST(ArModelAlone, TakesTheCodesOfATokenizerAsTheyAre) {
  Ar ar(kSmall);
  const Tensor codes = at::arange(12, at::kLong).remainder(9).reshape({1, 3, 2, 2});
  EXPECT_EQ(test::difference(ar({{"codes", codes.to(at::kInt)}}), ar({{"codes", codes}})), 0);
}

TEST(ArInputs, ThatDoNotFitAreRefused) {
  using ::testing::HasSubstr;
  Ar ar(kSmall);
  const Tensor one = at::ones({1, 1}, at::kLong), grid = at::tensor({3, 2, 2}, at::kLong);
  const auto with = [&](const core::NamedTensors& in) { return test::refusal([&] { ar(in); }); };
  EXPECT_THAT(with({{"codes", one * 9}, {"grid", grid}}),
              HasSubstr("from 9 to 9 are given, vocab_size is 9"));
  EXPECT_THAT(with({{"codes", one}}), HasSubstr("need `grid`"));
  EXPECT_THAT(with({{"codes", one}, {"sizes", at::ones({1, 3}, at::kLong)}}),
              HasSubstr("packed rows (`sizes`) are not supported"));
  EXPECT_THAT(with({{"codes", one}, {"grid", grid}, {"position", at::full({1}, 12, at::kLong)}}),
              HasSubstr("codes 12 to 12 are not in a video of 12"));
  EXPECT_THAT(with({{"codes", one}, {"grid", grid}, {"position", at::full({1}, 3, at::kLong)}}),
              HasSubstr("set its frames.start to the position"));
  EXPECT_THAT(test::refusal([] {
                Ar odd(core::json{{"n_heads", 4}, {"n_kv_heads", 3}});
              }),
              HasSubstr("n_kv_heads = 3 does not divide n_heads = 4"));
}

}  // namespace
}  // namespace kinora
