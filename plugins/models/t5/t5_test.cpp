// model/t5 and model/umt5 against transformers' T5EncoderModel and UMT5EncoderModel.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kinora/abi/model.h"
#include "tests/support/oracle.hpp"

namespace kinora {
namespace {

using at::Tensor;

std::string id_of(const std::string& oracle_case) {
  return "model/" + oracle_case.substr(0, oracle_case.find('.'));
}
double bound_of(at::ScalarType dtype) { return dtype == at::kDouble ? 1e-10 : 1e-5; }

struct Encoder : test::OnChain<kinora_model> {
  Encoder(const std::string& id, const core::json& options, at::ScalarType dtype = at::kDouble,
          std::vector<const kinora_link*> links = {})
      : OnChain(id.c_str(), options, dtype, std::move(links)) {}
};

class T5 : public ::testing::TestWithParam<std::tuple<std::string, at::ScalarType>> {};

TEST_P(T5, EqualsTransformersForwardAndBackward) {
  const auto& [name, dtype] = GetParam();
  const test::Oracle oracle("text_encoders.safetensors", name);
  const test::Recompute recompute;
  for (const auto& links : {std::vector<const kinora_link*>{}, {recompute.get()}}) {
    Encoder encoder(id_of(name), oracle.options, dtype, links);
    encoder.fill();
    const Tensor output = encoder.forward(
        {{"input_ids", oracle.exact("input_ids")}, {"attention_mask", oracle.exact("attention_mask")}})[0];
    EXPECT_LT(test::difference(output, oracle.exact("output_0")), bound_of(dtype));
    (output * test::numbers("grad_output_0", output.sizes()).to(dtype)).sum().backward();
    const auto wanted = oracle.under("grad.");
    EXPECT_EQ(wanted.size(), encoder.chain().leaves().size());
    for (const auto& leaf : encoder.chain().leaves()) {
      ASSERT_TRUE(leaf.tensor.grad().defined()) << leaf.name;
      EXPECT_LT(test::difference(leaf.tensor.grad(), wanted.at(leaf.name)), bound_of(dtype)) << leaf.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, T5,
                         ::testing::Combine(::testing::Values("t5.a", "t5.b", "t5.c", "t5.d", "t5.e",
                                                              "umt5.a", "umt5.b", "umt5.c", "umt5.d",
                                                              "umt5.e"),
                                            ::testing::Values(at::kDouble, at::kFloat)),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param);
                           name[name.find('.')] = '_';
                           return name + c10::toString(std::get<1>(info.param));
                         });

const core::json kSmall = {{"num_layers", 2}, {"d_model", 8},     {"d_kv", 4},
                           {"num_heads", 2},  {"vocab_size", 20}, {"d_ff", 12}};

TEST(T5Mask, HidesPaddingAndMayBeLeftOut) {
  for (const char* id : {"model/t5", "model/umt5"}) {
    Encoder encoder(id, kSmall);
    encoder.fill();
    const Tensor ids = at::arange(10, at::kLong).view({2, 5}), ones = at::ones({2, 5}, at::kLong);
    const Tensor alone = encoder.forward({{"input_ids", ids}})[0];
    const auto padded =
        encoder.forward({{"input_ids", at::cat({ids, ids.narrow(1, 0, 3)}, 1)},
                         {"attention_mask", at::cat({ones, at::zeros({2, 3}, at::kLong)}, 1)}})[0];
    EXPECT_LT(test::difference(padded.narrow(1, 0, 5), alone), 1e-14);
  }
}

TEST(T5Mask, MakesNumbersOfAnEmptyText) {
  Encoder encoder("model/umt5", kSmall);
  const Tensor none = at::zeros({1, 3}, at::kLong);
  EXPECT_TRUE(
      at::isfinite(encoder.forward({{"input_ids", none}, {"attention_mask", none}})[0]).all().item<bool>());
}

TEST(T5Errors, SayWhatIsWrong) {
  auto options = kSmall;
  options["relative_attention_num_buckets"] = 6;
  try {
    Encoder encoder("model/umt5", options);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("model/umt5: relative_attention_num_buckets"), std::string::npos)
        << e.what();
  }
  Encoder encoder("model/t5", kSmall);
  try {
    encoder.forward({{"input_ids", at::zeros({3}, at::kLong)}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(
        std::string(e.what()).find("model/t5: input_ids and attention_mask must both be [B, L], found [3]"),
        std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace kinora
