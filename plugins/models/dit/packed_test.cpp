// Several videos in one row: model/dit and model/stdit make of them what they make of each alone.
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "plugins/models/dit/dit_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora {
namespace {

using at::Tensor;
const auto kDouble = at::TensorOptions().dtype(at::kDouble);

struct Case {
  const char *name, *id;
  core::json options;
  bool masked = false, by_frame = false, condition_mask = false;
};
const core::json kSmall = {{"in_channels", 4}, {"out_channels", 4}, {"layers", 2},    {"heads", 4},
                           {"head_size", 12},  {"text_size", 10},   {"adaln_lora", 8}};
const core::json kSignals = {"camera:3", "image:6:tokens", "fps:1"};

Case of(const char* name, const char* id, core::json more, bool masked = false, bool by_frame = false,
        bool condition_mask = false) {
  auto options = kSmall;
  if (!more.is_null()) options.update(more);
  return {name, id, std::move(options), masked, by_frame, condition_mask};
}

const std::vector<Case> kCases = {
    of("plain", "model/dit", {}),
    of("paced", "model/dit", {{"base_fps", 24}, {"kv_heads", 2}}, true),
    of("signals", "model/dit", {{"signals", kSignals}, {"base_fps", 24}}, true, true),
    of("placed", "model/dit", {{"learnable_pos_embed", true}, {"max_size", {8, 8, 8}}, {"patch_time", 2}},
       false, true, true),
    of("unconditional", "model/dit", {{"cross_attention", false}}),
    of("plain", "model/stdit", {}, true),
    of("signals", "model/stdit", {{"signals", kSignals}, {"base_fps", 24}}, true, true),
    of("light", "model/stdit", {{"full_attention", false}, {"kv_heads", 2}}, false, true, true),
};

// Latents' T, H, W; texts of 5 tokens, of which the last ones are padding if there is a mask.
const std::vector<std::array<int64_t, 3>> kSizes = {{4, 4, 6}, {2, 2, 4}, {2, 6, 2}};
constexpr std::array<int64_t, 3> kTokens = {5, 2, 0};  // none: unconditional
constexpr int64_t kText = 5;

class PackedRow : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    at::manual_seed(7);
    const auto& c = GetParam();
    const int64_t channels = 4 - (c.condition_mask ? 1 : 0), pt = c.options.value("patch_time", 1);
    std::vector<Tensor> sizes;
    for (size_t i = 0; i < kSizes.size(); ++i) {
      const auto [T, H, W] = kSizes[i];
      core::NamedTensors in;
      in["latent"] = leaf({1, channels, T, H, W});
      in["timestep"] = c.by_frame ? leaf({1, T / pt}) : leaf({1});
      if (c.options.value("cross_attention", true)) in["text"] = leaf({1, kText, 10});
      if (c.masked) in["text_mask"] = at::arange(kText).unsqueeze(0) < kTokens[i];
      if (c.condition_mask) in["condition_mask"] = (at::randn({1, 1, T, H, W}, kDouble) > 0).to(at::kDouble);
      if (c.options.contains("signals")) {
        in["camera"] = c.by_frame ? leaf({1, T, 3}) : leaf({1, 3});
        in["image"] = leaf({1, 2, 6});
      }
      if (c.options.contains("base_fps")) in["fps"] = at::rand({1}, kDouble) * 20 + 10;
      alone.push_back(in);
      sizes.push_back(at::tensor({T, H, W}, at::kLong));
    }
    const auto joined = [&](const char* name, auto shaped, int64_t dim) {
      std::vector<Tensor> all;
      for (auto& in : alone)
        if (in.count(name)) all.push_back(shaped(in.at(name)));
      if (!all.empty()) row[name] = at::cat(all, dim);
    };
    for (const char* name : {"latent", "condition_mask"})
      joined(
          name, [](const Tensor& t) { return t.flatten(2); }, 2);
    for (const char* name : {"timestep", "camera"})  // of frames one behind the other, or of videos
      joined(
          name, [&](const Tensor& t) { return c.by_frame ? t[0] : t; }, 0);
    for (const char* name : {"text", "text_mask", "image", "fps"})
      joined(
          name, [](const Tensor& t) { return t; }, 0);
    row["sizes"] = at::stack(sizes);
  }
  static Tensor leaf(at::IntArrayRef shape) { return at::randn(shape, kDouble).requires_grad_(); }

  // The output of all, [1, C, N], and the gradients of its sum by `weight`, of inputs and parameters.
  struct Result {
    Tensor output;
    std::map<std::string, Tensor> gradients;
  };
  Result evaluated(bool packed, test::Links links) {
    test::Denoiser model(GetParam().id, GetParam().options, at::kDouble, std::move(links));
    at::manual_seed(9);
    model.randomise();
    std::vector<Tensor> parts, leaves;
    std::vector<std::string> names;
    for (auto& in : alone)
      if (!packed) parts.push_back(model(in).flatten(2));
    Result out{packed ? model(row) : at::cat(parts, 2), {}};
    for (size_t i = 0; i < alone.size(); ++i)
      for (const auto& [name, t] : alone[i])
        if (t.requires_grad()) names.push_back(name + std::to_string(i)), leaves.push_back(t);
    for (const auto& l : model.chain().leaves()) names.push_back(l.name), leaves.push_back(l.tensor);
    const Tensor weight = test::numbers("packed", out.output.sizes());
    const auto made =
        torch::autograd::grad({(out.output * weight).sum()}, leaves, {}, {}, false, /*allow_unused=*/true);
    for (size_t i = 0; i < made.size(); ++i)
      if (made[i].defined()) out.gradients[names[i]] = made[i];
    return out;
  }

  std::vector<core::NamedTensors> alone;
  core::NamedTensors row;
};

TEST_P(PackedRow, EqualsItsVideosAloneForwardAndBackwardInAnyOrder) {
  const Result want = evaluated(false, {});
  test::Scattered scattered;
  const test::Recompute recompute;
  for (const auto& links : {test::Links{}, test::Links{recompute.get(), scattered.get()}}) {
    const Result got = evaluated(true, links);
    double worst = test::difference(got.output, want.output);
    EXPECT_EQ(got.gradients.size(), want.gradients.size());
    for (const auto& [name, g] : want.gradients) {
      ASSERT_TRUE(got.gradients.count(name)) << name;
      if (g.abs().max().item<double>() == 0) {
        EXPECT_EQ(got.gradients.at(name).abs().max().item<double>(), 0) << name;
        continue;
      }
      worst = std::max(worst, test::difference(got.gradients.at(name), g));
    }
    EXPECT_LT(worst, 1e-12);
    std::printf("          %s: worst relative difference %.2g\n", GetParam().name, worst);
  }
}
INSTANTIATE_TEST_SUITE_P(Cases, PackedRow, ::testing::ValuesIn(kCases), [](const auto& info) {
  return std::string(info.param.id).substr(6) + "_" + info.param.name;
});

TEST(PackedInputs, ThatDoNotFitAreRefused) {
  test::Denoiser model("model/dit", kSmall);
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
