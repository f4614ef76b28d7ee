// model/cosmos against diffusers' CosmosTransformer3DModel, and invariants of a model in any chain.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/abi/model.h"
#include "kinora/link.hpp"
#include "tests/support/conditions.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/refusal.hpp"

namespace kinora {
namespace {

using at::Tensor;
using test::Shuffled;
constexpr const char* kFile = "cosmos_dit.safetensors";

struct Cosmos : test::OnChain<kinora_model> {
  explicit Cosmos(const core::json& options, at::ScalarType dtype = at::kDouble,
                  std::vector<const kinora_link*> links = {})
      : OnChain("model/cosmos", options, dtype, std::move(links)) {}
  Tensor operator()(const core::NamedTensors& in) { return forward(in)[0]; }
};

core::NamedTensors inputs(const test::Oracle& oracle, at::ScalarType dtype) {
  core::NamedTensors in;
  for (const char* name : {"latent", "text", "timestep", "padding_mask"})
    if (oracle.has(name)) in[name] = oracle(name, dtype);
  in["text_mask"] = oracle.exact("text_mask");
  in["latent"].requires_grad_();
  in["text"].requires_grad_();
  return in;
}

class CosmosModel : public ::testing::TestWithParam<std::tuple<const char*, at::ScalarType>> {
 protected:
  at::ScalarType dtype() const { return std::get<1>(GetParam()); }
  double bound() const { return test::bound_of(dtype()); }
  test::Oracle oracle{kFile, std::get<0>(GetParam())};
};

TEST_P(CosmosModel, EqualsDiffusersForwardAndBackward) {
  Shuffled together(false), apart(true);
  const test::Recompute recompute;
  for (const auto& links : {std::vector<const kinora_link*>{},
                            {together.get()},
                            {apart.get()},
                            {recompute.get(), together.get()}}) {
    Cosmos model(oracle.options, dtype(), links);
    model.load(oracle.under("weight."));
    const auto in = inputs(oracle, dtype());
    const Tensor output = model(in);
    EXPECT_LT(test::difference(output, oracle.exact("output")), bound());
    output.backward(oracle("grad_output", dtype()));
    EXPECT_LT(test::difference(in.at("latent").grad(), oracle.exact("grad.latent")), bound());
    EXPECT_LT(test::difference(in.at("text").grad(), oracle.exact("grad.text")), bound());
    const auto wanted = oracle.under("grad.param.");
    size_t compared = 0;
    for (const auto& leaf : model.chain().leaves()) {
      ASSERT_TRUE(leaf.tensor.grad().defined()) << leaf.name;
      if (!wanted.count(leaf.name)) continue;
      EXPECT_LT(test::difference(leaf.tensor.grad(), wanted.at(leaf.name)), bound()) << leaf.name;
      ++compared;
    }
    EXPECT_EQ(compared, wanted.size());
  }
}

// diffusers supports it only with patch_time 1, which case a has.
TEST(CosmosTimestep, MayDifferFromFrameToFrame) {
  const test::Oracle oracle(kFile, "a");
  Shuffled together(false), apart(true);
  for (const auto dtype : {at::kDouble, at::kFloat})
    for (const auto& links : {std::vector<const kinora_link*>{}, {together.get()}, {apart.get()}}) {
      Cosmos model(oracle.options, dtype, links);
      model.load(oracle.under("weight."));
      auto in = inputs(oracle, dtype);
      in["timestep"] = oracle("timestep_per_frame", dtype);
      EXPECT_LT(test::difference(model(in), oracle.exact("output_per_frame")), test::bound_of(dtype));
    }
}

TEST_P(CosmosModel, StretchesTimeByFramesASecond) {
  auto options = oracle.options;
  options["base_fps"] = 24;
  Cosmos model(options, dtype());
  model.load(oracle.under("weight."));
  auto in = inputs(oracle, dtype());
  in["fps"] = at::full({1}, 30, at::kFloat);
  EXPECT_LT(test::difference(model(in), oracle.exact("output_30fps")), bound());
}

INSTANTIATE_TEST_SUITE_P(Cases, CosmosModel,
                         ::testing::Combine(::testing::Values("a", "b"),
                                            ::testing::Values(at::kDouble, at::kFloat)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  c10::toString(std::get<1>(info.param));
                         });

// The shapes of the published networks, and more combinations of options, with weights and inputs of
// numbers.py.
class CosmosForm : public ::testing::TestWithParam<std::tuple<const char*, at::ScalarType>> {
 protected:
  at::ScalarType dtype() const { return std::get<1>(GetParam()); }
  double bound() const { return dtype() == at::kDouble ? 1e-10 : 1e-5; }
  std::string name = std::get<0>(GetParam());
  test::Oracle oracle{kFile, name};
  core::json options = oracle.options.at("options"), given = oracle.options.at("given");

  Tensor number(const char* what, at::IntArrayRef shape) const {
    return test::numbers(name + "." + what, shape);
  }
  core::NamedTensors inputs() const {
    const auto shape = given.value("shape", std::vector<int64_t>{3, 4, 6});
    const int64_t B = 2, T = shape[0], H = shape[1], W = shape[2], L = 5;
    const bool condition = given.contains("condition"), padding = given.contains("padding");
    core::NamedTensors in;
    in["latent"] = number("latent", {B, options.at("in_channels").get<int64_t>() - condition, T, H, W});
    in["text"] = number("text", {B, L, options.at("text_size")});
    in["timestep"] = given.contains("frames") ? number("timestep", {B, T}) : number("timestep", {B});
    if (condition) in["condition_mask"] = (number("condition_mask", {B, 1, T, H, W}) > 0).to(at::kDouble);
    if (padding) in["padding_mask"] = (number("padding_mask", {1, 1, 2 * H, 2 * W}) > 0).to(at::kDouble);
    if (given.contains("mask")) in["text_mask"] = number("text_mask", {B, L}) > -0.5;
    if (given.contains("fps")) in["fps"] = at::full({1}, given.at("fps").get<double>(), at::kDouble);
    for (auto& [_, t] : in)
      if (t.is_floating_point()) t = t.to(dtype());
    in["latent"].requires_grad_();
    in["text"].requires_grad_();
    return in;
  }
};

TEST_P(CosmosForm, EqualsDiffusersForwardAndBackward) {
  options["logvar"] = true;
  const test::Recompute recompute;
  Shuffled together(false);
  for (const auto& links : {std::vector<const kinora_link*>{}, {recompute.get(), together.get()}}) {
    Cosmos model(options, dtype(), links);
    model.fill();
    const auto in = inputs();
    const auto out = model.forward(in, 2);
    EXPECT_LT(test::difference(out[0], oracle.exact("output")), bound());
    EXPECT_LT(test::difference(out[1], oracle.exact("logvar")), bound());
    out[0].backward(number("grad_output", out[0].sizes()).to(dtype()));
    EXPECT_LT(test::difference(in.at("latent").grad(), oracle.exact("grad.latent")), bound());
    EXPECT_LT(test::difference(in.at("text").grad(), oracle.exact("grad.text")), bound());
    auto wanted = oracle.under("grad.param.");
    EXPECT_GE(wanted.size(), 5u);
    for (const auto& leaf : model.chain().leaves()) {
      const auto it = wanted.find(leaf.name);
      if (it == wanted.end()) continue;
      EXPECT_LT(test::difference(leaf.tensor.grad(), it->second), bound()) << leaf.name;
      wanted.erase(it);
    }
    EXPECT_TRUE(wanted.empty());
  }
}
INSTANTIATE_TEST_SUITE_P(Forms, CosmosForm,
                         ::testing::Combine(::testing::Values("predict1-7B", "predict1-14B", "predict2-2B",
                                                              "predict2-14B", "image"),
                                            ::testing::Values(at::kDouble, at::kFloat)),
                         [](const auto& info) {
                           auto name =
                               std::string(std::get<0>(info.param)) + c10::toString(std::get<1>(info.param));
                           std::erase(name, '-');
                           return name;
                         });

const core::json kSmall = {{"in_channels", 4}, {"out_channels", 4}, {"layers", 2},    {"heads", 2},
                           {"head_size", 12},  {"text_size", 10},   {"adaln_lora", 8}};

core::NamedTensors small(int64_t B = 2) {
  at::manual_seed(3);
  const auto o = at::TensorOptions().dtype(at::kDouble);
  return {{"latent", at::randn({B, 4, 3, 4, 6}, o)},
          {"timestep", at::randn({B}, o)},
          {"text", at::randn({B, 5, 10}, o)}};
}

TEST(CosmosRate, MayDifferWithinABatch) {
  auto options = kSmall;
  options["base_fps"] = 24;
  Cosmos model(options);
  model.randomise();
  auto in = small(2);
  in["fps"] = at::tensor({12., 30.}, at::kDouble);
  const auto both = model(in);
  for (int64_t i = 0; i < 2; ++i) {
    auto one = in;
    for (auto& [name, t] : one) t = t.narrow(0, i, 1);
    EXPECT_LT(test::difference(both.narrow(0, i, 1), model(one)), 1e-12) << i;
  }
}

TEST(CosmosNorm, OfQueriesAndKeysHasItsEpsilon) {
  auto options = kSmall;
  options["qk_norm_eps"] = 0.5;
  Cosmos other(options), model(kSmall);
  other.fill(), model.fill();
  EXPECT_GT(test::difference(other(small()), model(small())), 1e-4);
}

TEST(CosmosText, ThatIsZeroOrMaskedOrAbsentIsUnconditional) {
  Cosmos model(kSmall);
  model.randomise();
  test::expect_no_text_is_unconditional(model, small());
}

TEST(CosmosText, BehindTheMaskIsNotSeen) {
  Cosmos model(kSmall);
  model.randomise();
  auto in = small();
  in["text_mask"] = at::ones({2, 5}, at::kBool);
  in["text_mask"].narrow(1, 3, 2).fill_(false);
  const Tensor before = model(in);
  in["text"] = in["text"].clone();
  in["text"].narrow(1, 3, 2).add_(1);
  EXPECT_EQ(test::difference(model(in), before), 0);
}

TEST(CosmosFresh, PredictsZeroAndLearnsFromTheFirstStep) {
  Cosmos model(kSmall);
  const Tensor output = model(small());
  EXPECT_EQ(output.abs().max().item<double>(), 0);
  (output - 1).square().sum().backward();
  for (const auto& leaf : model.chain().leaves()) {
    if (leaf.name == "proj_out.weight") {
      EXPECT_GT(leaf.tensor.grad().abs().sum().item<double>(), 0);
    }
  }
}

TEST(CosmosSize, HasThePublishedNumberOfParameters) {
  const auto counts = test::Oracle(kFile, "counts").options;
  EXPECT_EQ(counts.size(), 4u);
  for (const auto& [size, wanted] : counts.items()) {
    test::plugins();
    core::Chain chain(core::ChainOptions{}, {});
    const test::Instance<kinora_model> model("model/cosmos", {{"size", size}, {"in_channels", 17}},
                                             chain.head());
    int64_t n = 0;  // declared, not allocated
    for (const auto& p : chain.parameters()) n += p.numel();
    EXPECT_EQ(n, wanted.get<int64_t>()) << size;
  }
}

TEST(CosmosSize, LeavesWhatIsGivenBesideIt) {
  test::plugins();
  const auto numel = [](const core::json& options) {
    core::Chain chain(core::ChainOptions{}, {});
    const test::Instance<kinora_model> model("model/cosmos", options, chain.head());
    int64_t n = 0;
    for (const auto& p : chain.parameters()) n += p.numel();
    return n;
  };
  const core::json as_published = {{"heads", 16},       {"head_size", 128}, {"text_size", 1024},
                                   {"adaln_lora", 256}, {"patch_space", 2}, {"concat_padding_mask", true},
                                   {"layers", 2}};
  EXPECT_EQ(numel({{"size", "predict2-2B"}, {"layers", 2}}), numel(as_published));
}

TEST(CosmosLogvar, IsZeroAtFirstAndLearns) {
  auto options = kSmall;
  options["logvar"] = true;
  Cosmos model(options);
  const auto logvar = model.forward(small(), 2)[1];
  EXPECT_EQ(logvar.sizes(), at::IntArrayRef({2}));
  EXPECT_EQ(logvar.abs().max().item<double>(), 0);
  logvar.sum().backward();
  for (const auto& leaf : model.chain().leaves()) {
    if (leaf.name.rfind("logvar.", 0) != 0) continue;
    EXPECT_EQ(leaf.name == "logvar.1.weight", leaf.tensor.grad().defined()) << leaf.name;
  }
}

// d logvar / d weight is the features' sum over the samples, independent of the tokens' order and number.
TEST(CosmosLogvar, GetsItsGradientOnce) {
  auto options = kSmall;
  options["logvar"] = true;
  Shuffled together(false);
  for (const auto& links : {std::vector<const kinora_link*>{}, {together.get()}}) {
    Cosmos model(options, at::kDouble, links);
    model.fill();
    const auto in = small();
    model.forward(in, 2)[1].sum().backward();
    const auto value = [](const char* name) { return test::oracle_weight(name, {128}); };
    const Tensor features =
        std::sqrt(2.0) *
        (in.at("timestep").unsqueeze(1) * value("logvar.0.freqs") + value("logvar.0.phases")).cos();
    for (const auto& leaf : model.chain().leaves()) {
      if (leaf.name == "logvar.1.weight") {
        EXPECT_LT(test::difference(leaf.tensor.grad()[0], features.sum(0)), 1e-12);
      }
    }
  }
}

TEST(CosmosRate, LeftOutIsBaseFps) {
  auto options = kSmall;
  options["base_fps"] = 24;
  Cosmos model(options);
  model.randomise();
  auto in = small();
  const Tensor without = model(in);
  in["fps"] = at::full({1}, 24., at::kDouble);
  EXPECT_LT(test::difference(model(in), without), 1e-14);
}

TEST(CosmosInputs, ThatDoNotFitAreRefused) {
  using ::testing::HasSubstr;
  Cosmos model(kSmall);
  const auto with = [&](const char* name, const Tensor& t) {
    auto in = small();
    in[name] = t;
    return test::refusal([&] { model(in); });
  };
  const auto o = at::TensorOptions().dtype(at::kDouble);
  EXPECT_THAT(with("latent", at::zeros({2, 3, 3, 4, 6}, o)), HasSubstr("3 channels, in_channels is 4"));
  EXPECT_THAT(with("latent", at::zeros({2, 4, 3, 5, 6}, o)), HasSubstr("does not divide into patches"));
  EXPECT_THAT(with("latent", at::zeros({2, 4, 3, 4, 242}, o)),
              HasSubstr("larger than max_size, 128 x 240 x 240"));
  EXPECT_THAT(with("latent", at::zeros({2, 4, 129, 4, 6}, o)),
              HasSubstr("a latent of 129 x 4 x 6 is larger than max_size, 128 x 240 x 240"));
  EXPECT_THAT(with("timestep", at::zeros({2, 2}, o)),
              HasSubstr("timestep has shape [2, 2], needed is [2] or [2, 3]"));
  EXPECT_THAT(with("text", at::zeros({2, 5, 9}, o)),
              HasSubstr("text has shape [2, 5, 9], needed is [2, L, 10]"));
  auto none = small();
  none.erase("timestep");
  EXPECT_THAT(test::refusal([&] { model(none); }), HasSubstr("input 'timestep' is missing"));
  EXPECT_THAT(test::refusal([] {
                Cosmos odd(core::json{{"head_size", 13}});
              }),
              HasSubstr("head_size = 13 is odd"));
}

}  // namespace
}  // namespace kinora
