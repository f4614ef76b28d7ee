// model/cosmos with signals, levels of its frames or tokens, and packed rows.
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
constexpr const char* kId = "model/cosmos";
const auto kDouble = at::TensorOptions().dtype(at::kDouble);

const core::json kConditioned = {{"in_channels", 4}, {"out_channels", 4}, {"layers", 2},    {"heads", 2},
                                 {"head_size", 12},  {"text_size", 10},   {"adaln_lora", 8}};
core::json small_with(const core::json& more) {
  auto out = kConditioned;
  out.update(more);
  return out;
}

struct ConditionedCosmos : test::OnChain<kinora_model> {
  explicit ConditionedCosmos(const core::json& more = core::json::object())
      : OnChain(kId, small_with(more), at::kDouble) {}
  Tensor operator()(const core::NamedTensors& in) { return forward(in)[0]; }
};

core::NamedTensors conditioned_inputs() {
  at::manual_seed(3);
  return {{"latent", at::randn({2, 4, 3, 4, 6}, kDouble)},
          {"timestep", at::randn({2}, kDouble)},
          {"text", at::randn({2, 5, 10}, kDouble)}};
}

using CosmosConditions = test::ConditionCase;
TEST_P(CosmosConditions, EqualDiffusersForwardAndBackwardInAnyOrder) {
  test::Shuffled together(false), apart(true);
  const test::Recompute recompute;
  expect_equal(kId, {{}, {together.get()}, {apart.get()}, {recompute.get(), together.get()}});
}
INSTANTIATE_TEST_SUITE_P(Cases, CosmosConditions,
                         ::testing::Combine(::testing::Values("cosmos.vectors", "cosmos.by_frame",
                                                              "cosmos.tokens", "cosmos.levels", "cosmos.all"),
                                            ::testing::Values(at::kDouble, at::kFloat)),
                         test::condition_case_name);

test::PackedCase of(const char* name, const core::json& more, Rows rows,
                    std::vector<test::PackedCase::Given> given, int64_t channels = 4) {
  given.insert(given.end(),
               {{"latent", Of::pixels, channels}, {"timestep", Of::rows, 0}, {"text", Of::tokens, 10, 5}});
  const int64_t pt = more.value("patch_time", 1);
  return {name, kId, small_with(more), {pt, 2, 2}, rows, given};
}
const core::json kSignals = {"camera:3", "image:6:tokens"};
const std::vector<test::PackedCase> kPacked = {
    of("plain", core::json::object(), Rows::videos, {}),
    of("placed",
       {{"learnable_pos_embed", true},
        {"max_size", {8, 8, 8}},
        {"patch_time", 2},
        {"concat_padding_mask", true}},
       Rows::frames, {{"condition_mask", Of::pixels, 1}, {"padding_mask", Of::video, 0}}, 3),
    of("paced", {{"base_fps", 24}, {"signals", kSignals}}, Rows::videos,
       {{"fps", Of::video, 0},
        {"text_mask", Of::tokens, 0, 5},
        {"camera", Of::rows, 3},
        {"image", Of::tokens, 6, 2}}),
    of("levels", {{"signals", kSignals}}, Rows::tokens,
       {{"text_mask", Of::tokens, 0, 5}, {"camera", Of::rows, 3}, {"image", Of::tokens, 6, 2}}),
    of("mixed", {{"signals", {"pose:2", "camera:3"}}}, Rows::tokens,
       {{"pose", Of::video, 2}, {"camera", Of::rows, 3}}),
};
using CosmosPacked = test::PackedRow;
TEST_P(CosmosPacked, EqualsItsVideosAloneForwardAndBackwardInAnyOrder) {
  test::Shuffled shuffled(false);
  const test::Recompute recompute;
  expect_equal({{}, {recompute.get(), shuffled.get()}});
}
INSTANTIATE_TEST_SUITE_P(Cases, CosmosPacked, ::testing::ValuesIn(kPacked), test::packed_case_name);

TEST(CosmosLevels, ThatAreEqualAreOne) {
  ConditionedCosmos model;
  model.randomise();
  test::expect_equal_levels_are_one(model, conditioned_inputs(), {1, 3, 3 * 2 * 3});
}

TEST(CosmosSignal, AddsNothingAtFirstNorWhenItIsLeftOut) {
  test::expect_signal_adds_nothing_at_first([](const core::json& more) { return ConditionedCosmos(more); },
                                            conditioned_inputs(), "camera", at::randn({2, 3}, kDouble));
}

// The log-variance has the level's shape, even if other conditions have more rows.
TEST(CosmosLogvar, HasTheShapeOfTheLevels) {
  ConditionedCosmos model(core::json{{"logvar", true}, {"signals", {"camera:3"}}});
  model.fill();
  auto in = conditioned_inputs();
  const Tensor of_samples = model.forward(in, 2)[1];
  EXPECT_EQ(of_samples.sizes(), at::IntArrayRef({2}));
  in["camera"] = at::randn({2, 3, 3}, kDouble);
  EXPECT_EQ(test::difference(model.forward(in, 2)[1], of_samples), 0);
  for (const int64_t R : {1, 3, 18}) {
    in["timestep"] = conditioned_inputs()["timestep"].unsqueeze(1).expand({2, R}).clone();
    in["timestep"].narrow(1, R - 1, 1).zero_();
    const Tensor found = model.forward(in, 2)[1];
    EXPECT_EQ(found.sizes(), at::IntArrayRef({2, R}));
    if (R > 1) {
      EXPECT_LT(test::difference(found.select(1, 0), of_samples), 1e-14);
      EXPECT_GT(test::difference(found.select(1, R - 1), of_samples), 1e-3);
    }
  }
  for (const auto& levels : {std::vector<int64_t>{2}, {3}, {8}}) {  // for a packed row
    const core::NamedTensors row = {{"latent", at::zeros({1, 4, 32}, kDouble)},
                                    {"sizes", at::tensor({1, 4, 4, 2, 2, 4}, at::kLong).view({2, 3})},
                                    {"timestep", at::arange(levels[0], kDouble)}};
    const Tensor found = model.forward(row, 2)[1];
    EXPECT_EQ(found.sizes(), at::IntArrayRef(levels));
    core::NamedTensors alone = {{"latent", at::zeros({levels[0], 4, 1, 2, 2}, kDouble)},
                                {"timestep", row.at("timestep")}};
    EXPECT_LT(test::difference(found, model.forward(alone, 2)[1]), 1e-14);
  }
}

TEST(CosmosPackedInputs, ThatDoNotFitAreRefused) {
  ConditionedCosmos model(core::json{{"signals", {"camera:3"}}, {"concat_padding_mask", true}});
  const auto said = [&](const char* name, const Tensor& t) {
    core::NamedTensors in = {{"latent", at::zeros({1, 4, 40}, kDouble)},
                             {"sizes", at::tensor({1, 4, 4, 2, 2, 6}, at::kLong).view({2, 3})},
                             {"timestep", at::zeros({2}, kDouble)}};
    in[name] = t;
    return test::refusal([&] { model(in); });
  };
  EXPECT_EQ(said("timestep", at::zeros({3}, kDouble)), "nothing was refused") << "one a frame";
  EXPECT_EQ(said("timestep", at::zeros({10}, kDouble)), "nothing was refused") << "one a token";
  EXPECT_THAT(said("timestep", at::zeros({1}, kDouble)),
              HasSubstr("timestep has shape [1], needed is [2] or [3] or [10]"));
  EXPECT_THAT(said("latent", at::zeros({1, 4, 41}, kDouble)),
              HasSubstr("needed with these sizes is [1, C, 40]"));
  EXPECT_THAT(said("text", at::zeros({1, 5, 10}, kDouble)), HasSubstr("needed is [2, L, 10]"));
  EXPECT_THAT(said("camera", at::zeros({2, 4}, kDouble)), HasSubstr("needed is [2, 3] or [3, 3] or [10, 3]"));
  EXPECT_THAT(said("padding_mask", at::zeros({3, 1, 4, 4}, kDouble)),
              HasSubstr("needed is [1 or 2, 1, any, any]"));
  EXPECT_THAT(test::refusal([] {
                ConditionedCosmos model(core::json{{"signals", {"padding_mask:3"}}});
              }),
              HasSubstr("has the name of another input"));
  EXPECT_THAT(test::refusal([] {
                ConditionedCosmos model(core::json{{"signals", {"camera"}}});
              }),
              HasSubstr("is not NAME:CHANNELS"));
}

}  // namespace
}  // namespace kinora
