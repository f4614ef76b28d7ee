// Models describe the rotation of their keys (kinora_attention.rope): turned back by it, the keys of equal tokens are
// equal, wherever the tokens are.
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "kinora/abi/model.h"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "tests/support/oracle.hpp"

namespace kinora {
namespace {

using at::Tensor;
const auto kDouble = at::TensorOptions().dtype(at::kDouble);

// [1 or B, S]: the tokens' positions on an axis.
Tensor position_of(const Tensor& table, const kinora_rope& rope, int64_t axis) {
  Tensor p =
      at::floor_divide((table.select(2, rope.column[axis]) - rope.first).clamp_min(0), rope.divisor[axis]);
  if (rope.modulus[axis] > 0) p = p.remainder(rope.modulus[axis]);
  const Tensor out = p.to(at::kDouble);
  return axis == 0 && rope.rate ? out * borrow<Tensor>(rope.rate).unsqueeze(1) : out;
}

// k [B, S, heads, d] without its rotation; channels in another order.
Tensor turned_back(const Tensor& k, const Tensor& table, const kinora_rope& rope) {
  std::vector<Tensor> pairs;
  const bool halves = rope.layout == KINORA_ROPE_HALVES;
  int64_t i = 0;
  for (int64_t axis = 0; axis < rope.n_axes; ++axis)
    for (int64_t j = 0; j < rope.pairs[axis]; ++j, ++i) {
      const Tensor angle = (position_of(table, rope, axis) * rope.frequency[i]).unsqueeze(2);
      const Tensor a = k.select(3, halves ? i : 2 * i),
                   b = k.select(3, halves ? i + k.size(3) / 2 : 2 * i + 1);
      pairs.push_back(a * angle.cos() + b * angle.sin());
      pairs.push_back(b * angle.cos() - a * angle.sin());
    }
  EXPECT_EQ(2 * i, k.size(3)) << "every pair belongs to an axis";
  return at::stack(pairs, 3);
}

// Keeps the keys of the first self-attention.
struct FirstKeys final : Link<Tensor> {
  FirstKeys() : Link(KINORA_LEVEL_CACHE) { skip_inherited<FirstKeys>(); }
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const kinora_attention& how) override {
    EXPECT_TRUE(how.rope == nullptr || how.kv_seq != 0) << "text has no positions";
    if (how.kv_seq && !as_given.defined()) {
      EXPECT_NE(how.rope, nullptr);
      as_given = k;
      if (how.rope)
        plain = turned_back(k, borrow<Tensor>(how.k_table), detail::known(how.rope, "a rotation"));
    }
    return next.attention(q, k, v, how);
  }
  Tensor as_given, plain;
};

struct RopeCase {
  const char *id, *name;
  core::json options;
  core::NamedTensors in;
};

core::NamedTensors video(int64_t text) {
  return {{"latent", at::full({2, 4, 3, 4, 6}, 0.3, kDouble)},
          {"timestep", at::full({2}, 0.4, kDouble)},
          {"text", at::full({2, 5, text}, 0.2, kDouble)},
          {"fps", at::tensor({12., 30.}, at::kDouble)}};
}

std::vector<RopeCase> cases() {
  const core::json denoiser = {{"in_channels", 4}, {"out_channels", 4}, {"layers", 1},
                               {"heads", 2},       {"head_size", 12},   {"text_size", 10},
                               {"base_fps", 24},   {"adaln_lora", 8},   {"rope_scale", {2.0, 1.0, 1.5}}};
  const core::json wan = {{"num_attention_heads", 2},
                          {"attention_head_dim", 12},
                          {"in_channels", 4},
                          {"out_channels", 4},
                          {"text_dim", 10},
                          {"freq_dim", 8},
                          {"ffn_dim", 12},
                          {"num_layers", 1}};
  const core::json ar = {{"vocab_size", 9},      {"n_layers", 1},   {"dim", 24},
                         {"n_heads", 4},         {"n_kv_heads", 2}, {"head_dim", 12},
                         {"ffn_hidden_size", 16}};
  auto line = ar;
  line["rope_dim"] = "1D";
  auto of_wan = video(10);
  of_wan.erase("fps");
  const core::NamedTensors codes{{"codes", at::ones({2, 3, 2, 3}, at::kLong)}};
  return {{"model/dit", "dit", denoiser, video(10)},
          {"model/stdit", "stdit", denoiser, video(10)},
          {"model/cosmos", "cosmos", denoiser, video(10)},
          {"model/wan", "wan", wan, of_wan},
          {"model/ar", "ar", ar, codes},
          {"model/ar", "ar of one axis", line, codes}};
}

TEST(RopeConformance, KeysOfEqualTokensAreEqualWithoutTheRotationThatAModelDescribes) {
  const at::NoGradGuard off;
  for (const auto& [id, name, options, in] : cases()) {
    at::manual_seed(7);
    FirstKeys link;
    test::OnChain<kinora_model> model(id, options, at::kDouble, {link.get()});
    model.randomise();
    model.forward(in);
    ASSERT_TRUE(link.plain.defined()) << name;
    // The first token of model/ar is the beginning, no code.
    const auto apart = [](const Tensor& k) {
      return (k.narrow(1, 1, k.size(1) - 1) - k.narrow(1, 1, 1)).abs().max().item<double>();
    };
    EXPECT_LT(apart(link.plain), 1e-12) << name;
    EXPECT_GT(apart(link.as_given), 1e-2) << name << ": keys without a rotation prove nothing";
  }
}

}  // namespace
}  // namespace kinora
