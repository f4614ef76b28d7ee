// model/minilm against transformers' BertModel with the real weights, where they are installed.
#include <cstdlib>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kinora/abi/model.h"
#include "tests/support/oracle.hpp"

namespace kinora {
namespace {

using at::Tensor;

struct MiniLm : test::OnChain<kinora_model> {
  explicit MiniLm(const core::json& options, at::ScalarType dtype = at::kDouble,
                  std::vector<const kinora_link*> links = {})
      : OnChain("model/minilm", options, dtype, std::move(links)) {}
};

TEST(MiniLm, EqualsTransformers) {
  const char* assets = std::getenv("KINORA_ASSETS");
  const auto path = std::filesystem::path(assets ? assets : "") / "minilm" / "model.safetensors";
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is not there; packaging/dev.sh setup installs it";
  const test::Oracle oracle("minilm.safetensors", "");
  const Tensor ids = oracle.exact("input_ids"), mask = oracle.exact("attention_mask"),
               real = mask.unsqueeze(-1);
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    MiniLm minilm(core::json::object(), dtype);
    minilm.load(core::read_tensors(path), {.may_ignore = [](const std::string&) { return true; }});
    const auto out = minilm.forward({{"input_ids", ids}, {"attention_mask", mask}}, 2);
    const Tensor output = out[0].slice(2, 0, out[0].size(2), 8);
    EXPECT_LT(test::difference(output * real, oracle.exact("output_every_8th") * real),
              test::bound_of(dtype));
    EXPECT_LT(test::difference(out[1], oracle.exact("pooled")), test::bound_of(dtype));
  }
}

const core::json kSmall = {{"layers", 2},        {"hidden", 8}, {"heads", 2},
                           {"intermediate", 16}, {"vocab", 20}, {"max_positions", 12}};

TEST(MiniLm, SeesNoPadding) {
  MiniLm minilm(kSmall);
  minilm.randomise();
  const Tensor ids = at::randint(1, 20, {2, 5}, at::kLong), ones = at::ones({2, 5}, at::kLong);
  const auto alone = minilm.forward({{"input_ids", ids}, {"attention_mask", ones}}, 2);
  const auto padded = minilm.forward({{"input_ids", at::cat({ids, at::randint(1, 20, {2, 3}, at::kLong)}, 1)},
                                      {"attention_mask", at::cat({ones, at::zeros({2, 3}, at::kLong)}, 1)}},
                                     2);
  EXPECT_LT(test::difference(padded[0].narrow(1, 0, 5), alone[0]), 1e-14);
  EXPECT_LT(test::difference(padded[1], alone[1]), 1e-14);
  EXPECT_LT((alone[1].norm(2, {1}) - 1).abs().max().item<double>(), 1e-14);
}

TEST(MiniLm, TheActivationIsItsOption) {
  const Tensor ids = at::arange(1, 6, at::kLong).unsqueeze(0), ones = at::ones({1, 5}, at::kLong);
  std::vector<Tensor> out;
  for (const char* act : {"gelu", "relu"}) {
    core::json options = kSmall;
    options["hidden_act"] = act;
    MiniLm minilm(options);
    at::manual_seed(11);
    minilm.randomise();
    out.push_back(minilm.forward({{"input_ids", ids}, {"attention_mask", ones}}, 2)[0]);
  }
  EXPECT_GT(test::difference(out[0], out[1]), 1e-3);
}

// A published file of another number of segments fits, and only its first segment is read.
TEST(MiniLm, TakesAsManySegmentsAsItsOptionSays) {
  core::json options = kSmall;
  options["types"] = 3;
  MiniLm two(kSmall), three(options);
  two.randomise();
  core::NamedTensors weights;
  for (const auto& leaf : two.chain().leaves()) weights[leaf.name] = leaf.tensor.detach().clone();
  Tensor& types = weights.at("embeddings.token_type_embeddings.weight");
  ASSERT_EQ(types.sizes(), at::IntArrayRef({2, 8}));
  types = at::cat({types, at::randn({1, 8}, types.options())});
  EXPECT_ANY_THROW(two.load(weights));
  three.load(weights);
  const Tensor ids = at::arange(1, 6, at::kLong).unsqueeze(0), ones = at::ones({1, 5}, at::kLong);
  const auto out = [&](MiniLm& of) {
    return of.forward({{"input_ids", ids}, {"attention_mask", ones}}, 2)[0];
  };
  EXPECT_TRUE(at::equal(out(two), out(three)));
}

TEST(MiniLm, HasTheSameGradientsWhenItsBlocksRunAgain) {
  const test::Recompute recompute;
  MiniLm once(kSmall), twice(kSmall, at::kDouble, {recompute.get()});
  const Tensor ids = at::randint(1, 20, {2, 5}, at::kLong), ones = at::ones({2, 5}, at::kLong);
  for (auto* minilm : {&once, &twice}) {
    at::manual_seed(11);
    minilm->randomise();
    const auto out = minilm->forward({{"input_ids", ids}, {"attention_mask", ones}}, 2);
    (out[0].square().sum() + out[1].sum()).backward();
  }
  for (size_t i = 0; i < once.chain().leaves().size(); ++i) {
    const auto &a = once.chain().leaves()[i], &b = twice.chain().leaves()[i];
    ASSERT_TRUE(a.tensor.grad().defined()) << a.name;
    EXPECT_LT((a.tensor.grad() - b.tensor.grad()).abs().max().item<double>(), 1e-12) << a.name;
  }
}

TEST(MiniLm, MakesNumbersOfAnEmptyText) {
  MiniLm minilm(kSmall);
  const auto out = minilm.forward(
      {{"input_ids", at::zeros({1, 3}, at::kLong)}, {"attention_mask", at::zeros({1, 3}, at::kLong)}}, 2);
  EXPECT_TRUE(at::isfinite(out[0]).all().item<bool>());
  EXPECT_EQ(out[1].abs().max().item<double>(), 0);
}

TEST(MiniLm, RefusesATextThatIsTooLong) {
  MiniLm minilm(kSmall);
  const Tensor ids = at::zeros({1, 13}, at::kLong);
  try {
    minilm.forward({{"input_ids", ids}, {"attention_mask", ids}}, 2);
    FAIL() << "13 tokens were taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("13 tokens are more than max_positions = 12"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace kinora
