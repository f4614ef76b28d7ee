// model/clip-text and model/clip-vision against transformers' CLIPTextModel(WithProjection) and
// CLIPVisionModel(WithProjection).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kinora/abi/model.h"
#include "tests/support/oracle.hpp"

namespace kinora {
namespace {

using at::Tensor;

struct Clip : test::OnChain<kinora_model> {
  Clip(const std::string& id, const core::json& options, at::ScalarType dtype = at::kDouble,
       std::vector<const kinora_link*> links = {})
      : OnChain(id.c_str(), options, dtype, std::move(links)) {}
};

core::NamedTensors inputs(const test::Oracle& oracle, at::ScalarType dtype) {
  if (oracle.has("input_ids"))
    return {{"input_ids", oracle.exact("input_ids")}, {"attention_mask", oracle.exact("attention_mask")}};
  const int64_t size = oracle.options["image_size"], channels = oracle.options["num_channels"];
  return {{"image", test::numbers("image", {2, channels, size, size}).to(dtype).requires_grad_()}};
}

class ClipTower : public ::testing::TestWithParam<std::tuple<std::string, at::ScalarType>> {};

TEST_P(ClipTower, EqualsTransformersForwardAndBackward) {
  const auto& [name, dtype] = GetParam();
  const double bound = dtype == at::kDouble ? 1e-10 : 1e-5;
  const test::Oracle oracle("text_encoders.safetensors", name);
  const test::Recompute recompute;
  for (const auto& links : {std::vector<const kinora_link*>{}, {recompute.get()}}) {
    Clip clip("model/" + name.substr(0, name.find('.')), oracle.options, dtype, links);
    clip.fill();
    const auto in = inputs(oracle, dtype);
    const auto outputs = clip.forward(in, 3);
    EXPECT_EQ(outputs[2].defined(), oracle.options["projection"].get<bool>());
    Tensor loss = at::zeros({}, dtype);
    for (int i = 0; i < 3; ++i) {
      if (!outputs[i].defined()) continue;
      EXPECT_LT(test::difference(outputs[i], oracle.exact("output_" + std::to_string(i))), bound) << i;
      loss = loss +
             (outputs[i] * test::numbers("grad_output_" + std::to_string(i), outputs[i].sizes()).to(dtype))
                 .sum();
    }
    loss.backward();
    auto wanted = oracle.under("grad.");
    if (in.count("image")) {
      EXPECT_LT(test::difference(in.at("image").grad(), wanted.at("image")), bound);
    }
    for (const auto& leaf : clip.chain().leaves()) {
      ASSERT_TRUE(leaf.tensor.grad().defined()) << leaf.name;
      if (leaf.name.ends_with("k_proj.bias")) {  // shifts all scores of a query alike: zero up to rounding
        EXPECT_LT(leaf.tensor.grad().abs().max().item<double>(), bound) << leaf.name;
        continue;
      }
      EXPECT_LT(test::difference(leaf.tensor.grad(), wanted.at(leaf.name)), bound) << leaf.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ClipTower,
                         ::testing::Combine(::testing::Values("clip-text.a", "clip-text.b", "clip-text.c",
                                                              "clip-text.d", "clip-text.e", "clip-vision.a",
                                                              "clip-vision.b", "clip-vision.c",
                                                              "clip-vision.d", "clip-vision.e"),
                                            ::testing::Values(at::kDouble, at::kFloat)),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param);
                           for (char& c : name)
                             if (c == '.' || c == '-') c = '_';
                           return name + c10::toString(std::get<1>(info.param));
                         });

const core::json kSmall = {{"num_hidden_layers", 2},  {"hidden_size", 8}, {"num_attention_heads", 2},
                           {"intermediate_size", 12}, {"vocab_size", 20}, {"max_position_embeddings", 9}};

TEST(ClipText, SeesNothingThatComesLater) {
  Clip clip("model/clip-text", kSmall);
  clip.fill();
  const Tensor ids = at::arange(12, at::kLong).view({2, 6});
  Tensor other = ids.clone();
  other.narrow(1, 4, 2).fill_(3);
  const Tensor a = clip.forward({{"input_ids", ids}}, 3)[0], b = clip.forward({{"input_ids", other}}, 3)[0];
  EXPECT_TRUE(at::equal(a.narrow(1, 0, 4), b.narrow(1, 0, 4)));
  EXPECT_FALSE(at::equal(a.narrow(1, 4, 1), b.narrow(1, 4, 1)));
}

void expect_refusal(const char* id, const core::json& options, const core::NamedTensors& in,
                    const char* text) {
  try {
    Clip(id, options).forward(in, 3);
    FAIL() << text;
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
  }
}

TEST(Clip, SaysWhatDoesNotFit) {
  expect_refusal("model/clip-text", kSmall, {{"input_ids", at::zeros({1, 10}, at::kLong)}},
                 "10 tokens are not 1 to max_position_embeddings = 9");
  auto odd = kSmall;
  odd["num_attention_heads"] = 3;
  expect_refusal("model/clip-text", odd, {}, "num_attention_heads = 3 does not divide hidden_size = 8");
  const core::json vision = {{"num_hidden_layers", 1},  {"hidden_size", 8}, {"num_attention_heads", 2},
                             {"intermediate_size", 12}, {"image_size", 8},  {"patch_size", 4}};
  expect_refusal("model/clip-vision", vision, {{"image", at::zeros({1, 3, 8, 9}, at::kDouble)}},
                 "[B, 3, 8, 8] is expected");
}

}  // namespace
}  // namespace kinora
