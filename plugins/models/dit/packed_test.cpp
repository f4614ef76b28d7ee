// Several videos in one row: model/dit and model/stdit give the same results as for each alone.
#include <gmock/gmock.h>

#include "plugins/models/dit/dit_testing.hpp"
#include "tests/support/packed_rows.hpp"
#include "tests/support/refusal.hpp"

namespace kinora {
namespace {

using at::Tensor;

using Of = test::PackedCase::Of;
using Rows = test::PackedCase::Rows;
const core::json kPackedSmall = {{"in_channels", 4}, {"out_channels", 4}, {"layers", 2},    {"heads", 4},
                                 {"head_size", 12},  {"text_size", 10},   {"adaln_lora", 8}};
const core::json kSignals = {"camera:3", "image:6:tokens", "fps:1"};

test::PackedCase of(const char* name, const char* id, const core::json& more, Rows rows,
                    std::vector<test::PackedCase::Given> given) {
  auto options = kPackedSmall;
  options.update(more);
  int64_t channels = 4;
  for (const auto& g : given) channels -= g.name == std::string("condition_mask");
  given.insert(given.end(), {{"latent", Of::pixels, channels}, {"timestep", Of::rows, 0}});
  if (options.value("cross_attention", true)) given.push_back({"text", Of::tokens, 10, 5});
  const int64_t pt = options.value("patch_time", 1);
  return {name, id, options, {pt, 2, 2}, rows, given};
}
const test::PackedCase::Given kMask{"text_mask", Of::tokens, 0, 5}, kFps{"fps", Of::video, 0},
    kCamera{"camera", Of::rows, 3}, kImage{"image", Of::tokens, 6, 2},
    kConditionMask{"condition_mask", Of::pixels, 1};

const std::vector<test::PackedCase> kCases = {
    of("plain", "model/dit", core::json::object(), Rows::videos, {}),
    of("paced", "model/dit", {{"base_fps", 24}, {"kv_heads", 2}}, Rows::videos, {kMask, kFps}),
    of("signals", "model/dit", {{"signals", kSignals}, {"base_fps", 24}}, Rows::frames,
       {kMask, kFps, kCamera, kImage}),
    of("placed", "model/dit", {{"learnable_pos_embed", true}, {"max_size", {8, 8, 8}}, {"patch_time", 2}},
       Rows::frames, {kConditionMask}),
    of("levels", "model/dit", {{"signals", {"camera:3", "fps:1"}}}, Rows::tokens, {kMask, kFps, kCamera}),
    of("unconditional", "model/dit", {{"cross_attention", false}}, Rows::videos, {}),
    of("plain", "model/stdit", core::json::object(), Rows::videos, {kMask}),
    of("signals", "model/stdit", {{"signals", kSignals}, {"base_fps", 24}}, Rows::frames,
       {kMask, kFps, kCamera, kImage}),
    of("levels", "model/stdit", {{"signals", {"camera:3"}}}, Rows::tokens, {kMask, kCamera}),
    of("light", "model/stdit", {{"full_attention", false}, {"kv_heads", 2}}, Rows::frames, {kConditionMask}),
};

using PackedRow = test::PackedRow;
TEST_P(PackedRow, EqualsItsVideosAloneForwardAndBackwardInAnyOrder) {
  test::Scattered scattered;
  const test::Recompute recompute;
  expect_equal({{}, {recompute.get(), scattered.get()}});
}
INSTANTIATE_TEST_SUITE_P(Cases, PackedRow, ::testing::ValuesIn(kCases), test::packed_case_name);

TEST(PackedInputs, ThatDoNotFitAreRefused) {
  test::Denoiser model("model/dit", kPackedSmall);
  const auto said = [&](const char* name, const Tensor& t) -> std::string {
    core::NamedTensors in = {{"latent", at::zeros({1, 4, 40}, kDouble)},
                             {"sizes", at::tensor({1, 4, 4, 2, 2, 6}, at::kLong).view({2, 3})},
                             {"timestep", at::zeros({2}, kDouble)}};
    in[name] = t;
    return test::refusal([&] { model(in); });
  };
  using ::testing::HasSubstr;
  EXPECT_EQ(said("timestep", at::zeros({3}, kDouble)), "nothing was refused") << "one a frame";
  EXPECT_THAT(said("timestep", at::zeros({1}, kDouble)),
              HasSubstr("timestep has shape [1], needed is [2] or [3]"));
  EXPECT_THAT(said("latent", at::zeros({1, 4, 41}, kDouble)),
              HasSubstr("needed with these sizes is [1, C, 40]"));
  EXPECT_THAT(said("latent", at::zeros({2, 4, 1, 4, 5}, kDouble)), HasSubstr("needed with these sizes"));
  EXPECT_THAT(said("sizes", at::zeros({6}, at::kLong)), HasSubstr("needed is [n, 3]"));
  EXPECT_THAT(said("sizes", at::tensor({1, 4, 4, 0, 2, 6}, at::kLong).view({2, 3})),
              HasSubstr("video 1 of sizes is 0 x 2 x 6"));
  EXPECT_THAT(said("sizes", at::tensor({1, 5, 4, 1, 4, 5}, at::kLong).view({2, 3})),
              HasSubstr("a latent of 1 x 5 x 4 does not divide"));
  EXPECT_THAT(said("text", at::zeros({1, 5, 10}, kDouble)), HasSubstr("needed is [2, L, 10]"));
}

}  // namespace
}  // namespace kinora
