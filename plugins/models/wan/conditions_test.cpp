// model/wan with signals, levels of its frames or tokens, and packed rows.
#include "tests/support/conditions.hpp"

#include <gmock/gmock.h>

#include "tests/support/oracle.hpp"
#include "tests/support/packed_rows.hpp"
#include "tests/support/refusal.hpp"

namespace kinora {
namespace {

using at::Tensor;
using ::testing::HasSubstr;
using Of = test::PackedCase::Of;
using Rows = test::PackedCase::Rows;
constexpr const char* kId = "model/wan";

const core::json kConditioned = {{"num_attention_heads", 2},
                                 {"attention_head_dim", 12},
                                 {"in_channels", 4},
                                 {"out_channels", 4},
                                 {"text_dim", 10},
                                 {"freq_dim", 8},
                                 {"ffn_dim", 12},
                                 {"num_layers", 2}};
core::json small_with(const core::json& more) {
  auto out = kConditioned;
  out.update(more);
  return out;
}

using WanConditions = test::ConditionCase;
TEST_P(WanConditions, EqualDiffusersForwardAndBackwardInAnyOrder) {
  test::Shuffled together(false), apart(true);
  const test::Recompute recompute;
  expect_equal(kId, {{}, {together.get()}, {apart.get()}, {recompute.get(), together.get()}});
}
INSTANTIATE_TEST_SUITE_P(Cases, WanConditions,
                         ::testing::Combine(::testing::Values("wan.vectors", "wan.by_frame", "wan.tokens",
                                                              "wan.all", "wan.i2v"),
                                            ::testing::Values(at::kDouble, at::kFloat)),
                         test::condition_case_name);

test::PackedCase of(const char* name, const core::json& more, Rows rows,
                    std::vector<test::PackedCase::Given> given, int64_t channels = 4) {
  given.insert(given.end(),
               {{"latent", Of::pixels, channels}, {"timestep", Of::rows, 0}, {"text", Of::tokens, 10, 5}});
  const auto patch = more.value("patch_size", std::array<int64_t, 3>{1, 2, 2});
  return {name, kId, small_with(more), patch, rows, given};
}
const core::json kSignals = {"camera:3", "depth:6:tokens"};
const std::vector<test::PackedCase> kPacked = {
    of("plain", core::json::object(), Rows::videos, {}),
    of("frames", {{"patch_size", {2, 1, 2}}, {"signals", kSignals}}, Rows::frames,
       {{"text_mask", Of::tokens, 0, 5}, {"camera", Of::rows, 3}, {"depth", Of::tokens, 6, 2}}),
    of("levels", {{"signals", {"pose:2", "camera:3"}}}, Rows::tokens,
       {{"pose", Of::video, 2}, {"camera", Of::rows, 3}}),
    of("i2v", {{"in_channels", 6}, {"image_dim", 4}, {"added_kv_proj_dim", 24}, {"pos_embed_seq_len", 3}},
       Rows::videos, {{"image", Of::tokens, 4, 3}, {"condition", Of::pixels, 2}}),
    of("image_as_text", {{"image_dim", 4}, {"signals", kSignals}}, Rows::videos,
       {{"image", Of::tokens, 4, 3}, {"camera", Of::rows, 3}, {"depth", Of::tokens, 6, 2}}),
};
using WanPacked = test::PackedRow;
TEST_P(WanPacked, EqualsItsVideosAloneForwardAndBackwardInAnyOrder) {
  test::Shuffled shuffled(false);
  const test::Recompute recompute;
  expect_equal({{}, {recompute.get(), shuffled.get()}});
}
INSTANTIATE_TEST_SUITE_P(Cases, WanPacked, ::testing::ValuesIn(kPacked), test::packed_case_name);

struct ConditionedWan : test::OnChain<kinora_model> {
  explicit ConditionedWan(const core::json& more = core::json::object())
      : OnChain(kId, small_with(more), at::kDouble) {}
  Tensor operator()(const core::NamedTensors& in) { return forward(in)[0]; }
};

core::NamedTensors conditioned_inputs() {
  return {{"latent", test::numbers("latent", {2, 4, 3, 4, 6})},
          {"timestep", 500 + 280 * test::numbers("timestep", {2})},
          {"text", test::numbers("text", {2, 6, 10})}};
}

TEST(WanLevels, ThatAreEqualAreOne) {
  ConditionedWan model;
  model.fill();
  test::expect_equal_levels_are_one(model, conditioned_inputs(), {1, 3, 3 * 2 * 3});
}

TEST(WanSignal, AddsNothingAtFirstNorWhenItIsLeftOut) {
  test::expect_signal_adds_nothing_at_first([](const core::json& more) { return ConditionedWan(more); },
                                            conditioned_inputs(), "camera", test::numbers("camera", {2, 3}));
}

TEST(WanPackedInputs, ThatDoNotFitAreRefused) {
  ConditionedWan model(core::json{{"signals", {"camera:3"}}});
  const auto said = [&](const char* name, const Tensor& t) -> std::string {
    core::NamedTensors in = {{"latent", at::zeros({1, 4, 40}, at::kDouble)},
                             {"sizes", at::tensor({1, 4, 4, 2, 2, 6}, at::kLong).view({2, 3})},
                             {"timestep", at::zeros({2}, at::kDouble)}};
    in[name] = t;
    return test::refusal([&] { model(in); });
  };
  for (const int64_t rows : {2, 3, 10})
    EXPECT_EQ(said("timestep", at::zeros({rows}, at::kDouble)), "nothing was refused") << rows;
  EXPECT_THAT(said("timestep", at::zeros({1}, at::kDouble)),
              HasSubstr("timestep has shape [1], needed is [2] or [3] or [10]"));
  EXPECT_THAT(said("latent", at::zeros({1, 4, 41}, at::kDouble)),
              HasSubstr("needed with these sizes is [1, C, 40]"));
  EXPECT_THAT(said("sizes", at::tensor({1, 5, 4, 1, 4, 5}, at::kLong).view({2, 3})),
              HasSubstr("a latent of 1 x 5 x 4 does not divide"));
  EXPECT_THAT(said("text", at::zeros({1, 5, 10}, at::kDouble)), HasSubstr("needed is [2, L, 10]"));
  EXPECT_THAT(said("camera", at::zeros({2, 4}, at::kDouble)),
              HasSubstr("needed is [2, 3] or [3, 3] or [10, 3]"));
}

}  // namespace
}  // namespace kinora
