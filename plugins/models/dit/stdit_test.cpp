// model/stdit against a plain transcription whose spatial and temporal attention are full attention with a
// mask (tests/oracle/make_dit_fixtures.py).
#include "plugins/models/dit/dit_testing.hpp"

namespace kinora {
namespace {

using at::Tensor;
constexpr const char* kStdit = "model/stdit";

class StDitModel : public ::testing::TestWithParam<const char*> {
 protected:
  test::DitCase example{kStdit, "stdit.safetensors", GetParam()};
};

// In `Scattered` each layout has its own order, so positions, rows of modulation and masks must be
// those of the tokens' current layout.
TEST_P(StDitModel, EqualsMaskedFullAttentionForwardAndBackwardInAnyLayout) { example.expect_equal(); }
TEST_P(StDitModel, HasTheParametersOfTheFormulas) { example.expect_parameters(); }
INSTANTIATE_TEST_SUITE_P(Cases, StDitModel,
                         ::testing::Values("plain", "levels", "light", "grouped", "unconditional", "signals"),
                         [](const auto& info) { return std::string(info.param); });

const core::json kSmallStdit = {{"in_channels", 4}, {"out_channels", 4}, {"layers", 1},
                                {"heads", 2},       {"head_size", 12},   {"text_size", 10},
                                {"adaln_lora", 8},  {"patch_space", 1},  {"full_attention", false}};

TEST(StDit, OneLayerReachesEveryTokenThroughFrameThenPlace) {
  test::Denoiser model(kStdit, kSmallStdit);
  model.randomise();
  at::manual_seed(3);
  const auto o = at::TensorOptions().dtype(at::kDouble);
  core::NamedTensors in = {{"latent", at::randn({1, 4, 3, 2, 2}, o)}, {"timestep", at::randn({1}, o)}};
  const Tensor before = model(in);
  in["latent"] = in["latent"].clone();
  in["latent"].select(2, 0).select(2, 0).select(2, 0).add_(1);
  EXPECT_GT((model(in) - before).abs().sum(1).min().item<double>(), 0);
}

// Counts the layouts that a step requests.
class Counting final : public Link<Tensor> {
 public:
  Counting() : Link(KINORA_LEVEL_CONTEXT) {}
  Tensor reshard(const Tensor& x, kinora_seq seq, Over over, kinora_seq& to) override {
    if (x.size(2) > 0) asked.push_back(over);
    return next.reshard(x, seq, over, to);
  }
  std::vector<Over> asked;
};

TEST(StDit, ReshardsThreeTimesALayerAndTwiceWithoutFullAttention) {
  for (const bool full : {true, false}) {
    auto options = kSmallStdit;
    options["layers"] = 2;
    options["full_attention"] = full;
    Counting counting;
    test::Denoiser model(kStdit, options, at::kDouble, {counting.get()});
    const auto o = at::TensorOptions().dtype(at::kDouble);
    model({{"latent", at::randn({1, 4, 3, 2, 2}, o)}, {"timestep", at::randn({1}, o)}});
    std::vector<Over> layer{Over::space, Over::time};
    if (full) layer.insert(layer.begin() + 1, Over::all);
    auto twice = layer;
    twice.insert(twice.end(), layer.begin(), layer.end());
    EXPECT_EQ(counting.asked, twice);
  }
}

}  // namespace
}  // namespace kinora
