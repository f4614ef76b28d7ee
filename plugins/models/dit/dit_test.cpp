// model/dit against a plain transcription of the formulas (tests/oracle/make_dit_fixtures.py), and its
// invariants with any weights.
#include <gmock/gmock.h>

#include "plugins/models/dit/dit_testing.hpp"
#include "tests/support/conditions.hpp"
#include "tests/support/refusal.hpp"

namespace kinora {
namespace {

using at::Tensor;
using ::testing::HasSubstr;
constexpr const char* kId = "model/dit";

class DitModel : public ::testing::TestWithParam<const char*> {
 protected:
  test::DitCase example{kId, "dit.safetensors", GetParam()};
};
TEST_P(DitModel, EqualsTheFormulasForwardAndBackwardInAnyOrder) { example.expect_equal(); }
TEST_P(DitModel, HasTheParametersOfTheFormulas) { example.expect_parameters(); }
INSTANTIATE_TEST_SUITE_P(Cases, DitModel,
                         ::testing::Values("plain", "grouped", "unconditional", "signals", "levels", "paced"),
                         [](const auto& info) { return std::string(info.param); });

const core::json kSmall = {{"in_channels", 4}, {"out_channels", 4}, {"layers", 2},    {"heads", 2},
                           {"head_size", 12},  {"text_size", 10},   {"adaln_lora", 8}};

core::json small_with(const core::json& more) {
  auto out = kSmall;
  out.update(more);
  return out;
}

core::NamedTensors small() {
  at::manual_seed(3);
  return {{"latent", at::randn({2, 4, 3, 4, 6}, kDouble)},
          {"timestep", at::randn({2}, kDouble)},
          {"text", at::randn({2, 5, 10}, kDouble)}};
}

TEST(DitSize, HasItsNumberOfParameters) {
  const auto counts = test::Oracle("dit.safetensors", "counts").options;
  EXPECT_EQ(counts.size(), 10u);
  for (const auto& [size, wanted] : counts.items()) {
    test::plugins();
    core::Chain chain(core::ChainOptions{}, {});
    const core::json options = {{"size", size}, {"text_size", 1024}};
    const test::Instance<kinora_model> model(kId, options, chain.head());
    int64_t n = 0;  // declared, not allocated
    for (const auto& p : chain.parameters()) n += p.numel();
    EXPECT_EQ(n, wanted.get<int64_t>()) << size;
  }
}

// Options set in addition to the size are kept; a width that the size's key heads do not divide is rejected.
TEST(DitSize, LeavesWhatIsGivenBesideIt) {
  test::plugins();
  const auto declared = [](const core::json& options) {
    core::Chain chain(core::ChainOptions{}, {});
    const test::Instance<kinora_model> model(kId, options, chain.head());
    std::map<std::string, std::vector<int64_t>> out;
    for (const auto& p : chain.parameters()) out[p.name] = p.shape;
    return out;
  };
  const auto whole = declared({{"size", "7B"}}),
             less = declared({{"size", "7B"}, {"layers", 2}, {"head_size", 24}, {"adaln_lora", 8}});
  const auto by_hand = declared({{"layers", 2}, {"heads", 24}, {"head_size", 24}, {"adaln_lora", 8}});
  EXPECT_EQ(less, by_hand);
  EXPECT_GT(whole.size(), 10 * less.size());
  EXPECT_THAT(
      [&] {
        declared({{"size", "7B"}, {"kv_heads", 5}});
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr("not divided evenly over kv_heads = 5")));
}

TEST(DitText, ThatIsZeroOrMaskedOrAbsentIsUnconditional) {
  test::Denoiser model(kId, kSmall);
  model.randomise();
  test::expect_no_text_is_unconditional(model, small());
}

TEST(DitLevels, ThatAreEqualAreOne) {
  for (const char* id : {"model/dit", "model/stdit"}) {
    test::Denoiser model(id, kSmall);
    model.randomise();
    test::expect_equal_levels_are_one(model, small(), {1, 3, 3 * 2 * 3});
  }
}

TEST(DitRate, LeftOutIsBaseFps) {
  test::Denoiser model(kId, small_with({{"base_fps", 24}}));
  model.randomise();
  auto in = small();
  const Tensor without = model(in);
  in["fps"] = at::full({2}, 24., kDouble);
  EXPECT_LT(test::difference(model(in), without), 1e-14);
}

TEST(DitFresh, PredictsZeroAndLearnsFromTheFirstStep) {
  test::Denoiser model(kId, kSmall);
  const Tensor output = model(small());
  EXPECT_EQ(output.abs().max().item<double>(), 0);
  (output - 1).square().sum().backward();
  for (const auto& leaf : model.chain().leaves()) {
    if (leaf.name == "final_layer_linear.weight") {
      EXPECT_GT(leaf.tensor.grad().abs().sum().item<double>(), 0);
    }
  }
}

TEST(DitSignal, AddsNothingAtFirstNorWhenItIsLeftOut) {
  test::expect_signal_adds_nothing_at_first(
      [](const core::json& more) { return test::Denoiser(kId, small_with(more)); }, small(), "camera",
      at::randn({2, 3}, kDouble));
}

TEST(DitOptions, ThatMakeNoSenseAreRefused) {
  const auto said = [](const core::json& more) {
    return test::refusal([&] { test::Denoiser model(kId, small_with(more)); });
  };
  EXPECT_THAT(said({{"head_size", 13}}), HasSubstr("head_size = 13 is odd"));
  EXPECT_THAT(said({{"heads", 3}, {"kv_heads", 2}}), HasSubstr("not divided evenly over kv_heads = 2"));
  EXPECT_THAT(said({{"signals", {"camera"}}}), HasSubstr("'camera' is not NAME:CHANNELS"));
  EXPECT_THAT(said({{"signals", {"camera:x"}}}), HasSubstr("'camera:x' is not NAME:CHANNELS"));
  EXPECT_THAT(said({{"signals", {"image:3:pixels"}}}), HasSubstr("or NAME:CHANNELS:tokens"));
  EXPECT_THAT(said({{"signals", {"text:3"}}}), HasSubstr("has the name of another input"));
  EXPECT_THAT(said({{"signals", {"a:3", "a:4"}}}), HasSubstr("has the name of another input"));
  EXPECT_THAT(said({{"signals", {"a:3:tokens"}}, {"cross_attention", false}}),
              HasSubstr("need cross_attention = true"));
}

TEST(DitInputs, ThatDoNotFitAreRefused) {
  test::Denoiser model(kId, small_with({{"signals", {"camera:3", "image:6:tokens"}},
                                        {"learnable_pos_embed", true},
                                        {"max_size", {8, 8, 8}}}));
  const auto with = [&](const char* name, const Tensor& t) {
    auto in = small();
    in[name] = t;
    return test::refusal([&] { model(in); });
  };
  EXPECT_THAT(with("latent", at::zeros({2, 3, 3, 4, 6}, kDouble)),
              HasSubstr("have 3 channels, in_channels is 4"));
  EXPECT_THAT(with("latent", at::zeros({2, 4, 3, 5, 6}, kDouble)), HasSubstr("does not divide into patches"));
  EXPECT_THAT(with("latent", at::zeros({2, 4, 9, 4, 6}, kDouble)),
              HasSubstr("a latent of 9 x 4 x 6 is larger than max_size, 8 x 8 x 8"));
  EXPECT_THAT(with("timestep", at::zeros({2, 2}, kDouble)),
              HasSubstr("timestep has shape [2, 2], needed is [2] or [2, 3]"));
  EXPECT_THAT(with("text", at::zeros({2, 5, 9}, kDouble)),
              HasSubstr("text has shape [2, 5, 9], needed is [2, L, 10]"));
  EXPECT_THAT(with("camera", at::zeros({2, 2, 3}, kDouble)),
              HasSubstr("camera has shape [2, 2, 3], needed is [2, 3] or [2, 3, 3]"));
  EXPECT_THAT(with("image", at::zeros({2, 6}, kDouble)),
              HasSubstr("image has shape [2, 6], needed is [2, L, 6]"));
  auto none = small();
  none.erase("timestep");
  EXPECT_THAT(test::refusal([&] { model(none); }), HasSubstr("input 'timestep' is missing"));
}

}  // namespace
}  // namespace kinora
