// Frames that training gives a model: how it sees them, what is learned, and who draws their number.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/tensors/noise.hpp"
#include "kinora/aten.hpp"
#include "kinora/model.hpp"
#include "plugins/jobs/inference/guidance.hpp"
#include "plugins/jobs/training/sample_draws.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core {
namespace {

using at::Tensor;

NamedTensors shown;  // the model's last inputs

// A model whose output is its latent times a parameter.
struct Times : kinora::Model<Tensor> {
  struct Options {};
  static void describe(Describe<Options>& d) {
    d.name("times");
    for (const char* n : {"latent", "timestep", "condition_mask", "condition"})
      d.input(n, "[B, ...]", "float");
    d.output("output", "[B, C, T, H, W]", "float");
  }
  Times(const Options&, const Context<Tensor>& ctx) { w = ctx.parameter({"w", {1}, Init::constant(0.75)}); }
  std::vector<Tensor> forward(const Context<Tensor>& ctx, const Named<Tensor>& in) override {
    shown.clear();
    for (const char* n : {"latent", "timestep", "condition_mask"})
      if (in.has(n)) shown[n] = in[n];
    return {in["latent"] * ctx.value(w)};
  }
  int64_t blocks() const override { return 0; }
  kinora_param w;
};

constexpr int64_t kLatentFrames = 3;
struct TrainedFrames {
  ComponentSpec spec;
  Component opened;
  LossInstance loss;
  Model network;
  Objective objective;
  TrainedFrames(const std::string& id, int64_t in_channels, const json& options = json::object())
      : spec(model_spec()),
        opened(or_throw(test::runtime().registry().open("loss/" + id))),
        loss(opened, or_throw(Options::make(*opened.spec, options))),
        network({&spec, nullptr, Times::api<Times>()}, Options(), {.dtype = at::kDouble}),
        objective(loss, network, spec, at::kDouble, at::kDouble, at::kCPU, {}, in_channels) {}
  static ComponentSpec model_spec() {
    ComponentSpec out;
    out.id = "model/times", out.kind = "model", out.name = "times";
    for (const char* n : {"latent", "timestep", "condition_mask", "condition"})
      out.inputs.emplace_back().name = n;
    out.outputs.emplace_back().name = "output";
    return out;
  }
};

const Tensor& latents() {
  static const Tensor made =
      sample_noise(at::empty({3, 2, kLatentFrames, 2, 4}, at::kDouble), 5, 0, "latents") * 0.5;
  return made;
}
const Tensor& noise() {
  static const Tensor made = sample_noise(latents(), 5, 0, "noise");
  return made;
}
Tensor levels(const std::string& loss) {
  const Tensor s = at::tensor({0.3, 0.6, 2.5}, at::kDouble);
  return loss == "flow" ? s / (1 + s) : s;
}
double worst(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

TrainOptions options(std::vector<int64_t> frames, std::vector<double> condition_noise = {}) {
  TrainOptions o;
  o.condition_frames = std::move(frames);
  o.condition_noise = std::move(condition_noise);
  return o;
}

class GivenFrames : public testing::TestWithParam<std::tuple<std::string, int64_t>> {};

// The training's condition against the generation's, sample by sample, since a generation gives all samples
// the same number.
TEST_P(GivenFrames, AreWhatAGenerationShows) {
  const auto& [loss, in_channels] = GetParam();
  TrainedFrames t(loss, in_channels);
  const double sigma_of_given = 1e-4;
  Given given{{0, 1, 2}, at::full({3}, level_of(sigma_of_given, t.loss.mix()), at::kDouble)};
  const NamedTensors trained = t.objective.inputs({{"latent", latents()}}, levels(loss), noise(), given);
  Experts experts(t.network);
  GuidedModel guided(experts, t.spec, {}, t.loss, at::kDouble, 0);
  for (int64_t b = 1; b < 3; ++b) {
    const Tensor clean = latents().narrow(0, b, 1), sigma = levels(loss).narrow(0, b, 1);
    const FrameCondition condition(clean.narrow(2, 0, b), t.loss.mix(), sigma_of_given);
    Conditions with;
    if (in_channels == 3) with["condition_mask"] = condition.mask(kLatentFrames);
    GuidedConditions video = guided.prepared(with, with, {});
    condition(t.loss.noisy(clean, noise().narrow(0, b, 1), sigma), sigma,
              [&](const Tensor& x, const Tensor& s) { return guided(video, x, s); });
    ASSERT_EQ(trained.size(), shown.size());
    for (const auto& [name, tensor] : shown)
      EXPECT_LT(worst(trained.at(name).narrow(0, b, 1), tensor), 1e-15) << name << b;
  }
  EXPECT_EQ(trained.at("timestep").sizes(), (std::vector<int64_t>{3, kLatentFrames}));
  EXPECT_EQ(trained.count("condition_mask"), in_channels == 3 ? 1u : 0u);
}

// Without given frames the mask is all zeros, as in a generation.
TEST_P(GivenFrames, AreNoneByThemselves) {
  const auto& [loss, in_channels] = GetParam();
  TrainedFrames t(loss, in_channels);
  const auto in = t.objective.inputs({{"latent", latents()}}, levels(loss), noise());
  EXPECT_EQ(in.at("timestep").dim(), 1);
  EXPECT_EQ(in.count("condition_mask"), in_channels == 3 ? 1u : 0u);
  const auto mask = in.find("condition_mask");
  EXPECT_TRUE(mask == in.end() || mask->second.abs().sum().item<double>() == 0);
}

// The model's w times input against the losses' own targets, on the frames that follow; the mean counts all
// frames.
TEST_P(GivenFrames, AreNotLearnt) {
  const auto& [loss, in_channels] = GetParam();
  TrainedFrames t(loss, in_channels);
  const Given given{{2, 0, 1}, at::full({3}, 1e-4, at::kDouble)};
  const Tensor got = t.objective.losses({{"latent", latents()}}, levels(loss), noise(), given);
  const Tensor w = at::tensor({0.75}, at::kDouble).requires_grad_();
  const Tensor s = levels(loss).view({3, 1, 1, 1, 1}), &x0 = latents(), x_edm = x0 + s * noise();
  const double d2 = 0.25;
  const Tensor error = loss == "flow"
                           ? w * ((1 - s) * x0 + s * noise()) - (noise() - x0)
                           : (d2 / (s * s + d2) * x_edm +
                              s * 0.5 / (s * s + d2).sqrt() * w * x_edm / (s * s + d2).sqrt() - x0) *
                                 ((s * s + d2) / (s * s * d2)).sqrt();
  std::vector<Tensor> want;
  for (int64_t b = 0; b < 3; ++b) {
    const int64_t first = given.frames[static_cast<size_t>(b)];
    want.push_back(error[b].narrow(1, first, kLatentFrames - first).square().sum() /
                   static_cast<double>(error[b].numel()));
  }
  EXPECT_LT(worst(got, at::stack(want)), 1e-12);
  got.sum().backward();
  at::stack(want).sum().backward();
  EXPECT_LT(worst(t.network.chain().leaves()[0].tensor.grad(), w.grad()), 1e-12);
}
INSTANTIATE_TEST_SUITE_P(Ways, GivenFrames,
                         testing::Combine(testing::Values("edm", "flow"), testing::Values(2, 3)),
                         [](const auto& info) {
                           return std::get<0>(info.param) +
                                  (std::get<1>(info.param) == 3 ? "_mask" : "_level");
                         });

// A sum over the learned frames is the mean over all frames times their number of elements.
TEST(GivenFrame, AreNotLearntInASumEither) {
  TrainedFrames mean("edm", 2), sum("edm", 2, {{"loss_reduce", "sum"}});
  const Given given{{2, 0, 1}, at::full({3}, 1e-4, at::kDouble)};
  const auto of = [&](TrainedFrames& t) {
    return t.objective.losses({{"latent", latents()}}, levels("edm"), noise(), given);
  };
  const Tensor want = of(mean) * static_cast<double>(latents()[0].numel());
  EXPECT_LT(worst(of(sum) / want, at::ones({3}, at::kDouble)), 1e-12);
}

// Cosmos-Predict 1: the timestep is that of the other frames.
TEST(GivenFrame, ShareTheTimestepOfTheOthersWhereAsked) {
  TrainedFrames t("edm", 2);
  Given given{{1, 0, 2}, at::full({3}, 1e-4, at::kDouble)};
  const NamedTensors own = t.objective.inputs({{"latent", latents()}}, levels("edm"), noise(), given);
  given.shares_timestep = true;
  const NamedTensors shared = t.objective.inputs({{"latent", latents()}}, levels("edm"), noise(), given);
  EXPECT_LT(worst(shared.at("timestep"), levels("edm").log() / 4), 1e-12);
  EXPECT_EQ(worst(shared.at("latent"), own.at("latent")), 0);
}

TEST(GivenFrame, CarryNoiseOfTheLevelThatIsTold) {
  TrainedFrames t("edm", 2);
  const Given given{{1, 1, 1}, at::tensor({0.1, 0.2, 0.4}, at::kDouble), true};
  const auto in = t.objective.inputs({{"latent", latents()}}, levels("edm"), noise(), given);
  const Tensor level = given.level.view({3, 1, 1, 1});
  EXPECT_LT(worst(in.at("latent").select(2, 0),
                  (latents().select(2, 0) + level * noise().select(2, 0)) / (level * level + 0.25).sqrt()),
            1e-12);
  EXPECT_LT(worst(in.at("timestep").select(1, 0), given.level.log() / 4), 1e-12);
}

TEST(GivenFrame, AreDrawnBySampleWhateverTheBatch) {
  TrainedFrames t("flow", 2);
  const GivenDraw draw(options({0, 1, 2}, {-3, 2}), t.loss, 9);
  const Given whole = draw(0, 3000);
  EXPECT_EQ(draw(17, 1).frames[0], whole.frames[17]);
  EXPECT_EQ(draw(100, 50).frames,
            std::vector<int64_t>(whole.frames.begin() + 100, whole.frames.begin() + 150));
  EXPECT_EQ(worst(draw(100, 50).level, whole.level.narrow(0, 100, 50)), 0);
  const Given some = draw(std::vector<int64_t>{900, 5, 17});
  EXPECT_EQ(some.frames, (std::vector<int64_t>{whole.frames[900], whole.frames[5], whole.frames[17]}));
  EXPECT_EQ(worst(some.level, whole.level.index_select(0, at::tensor({900, 5, 17}, at::kLong))), 0);
  EXPECT_TRUE(some.noisy);
  for (const int64_t n : {0, 1, 2})
    EXPECT_NEAR(static_cast<double>(std::count(whole.frames.begin(), whole.frames.end(), n)), 1000, 110) << n;
  EXPECT_NE(draw(0, 3000, "validation").frames, whole.frames);
  const Tensor logs = (whole.level / (1 - whole.level)).log();
  EXPECT_NEAR(logs.mean().item<double>(), -3, 0.15);
  EXPECT_NEAR(logs.std().item<double>(), 2, 0.15);
  EXPECT_TRUE(GivenDraw(options({}), t.loss, 9)(0, 4).frames.empty());
}

TEST(GivenFrame, SayWhatDoesNotFit) {
  using testing::HasSubstr;
  TrainedFrames t("flow", 2), wan("flow", 8), odd("flow", 4);
  const auto in = [](TrainedFrames& of, std::vector<int64_t> frames) {
    return test::refusal([&] {
      of.objective.inputs({{"latent", latents()}}, levels("flow"), noise(),
                          {std::move(frames), at::zeros({3}, at::kDouble)});
    });
  };
  EXPECT_THAT(in(t, {1, 3, 0}), HasSubstr("condition_frames: 3 of 3 latent frames are given"));
  EXPECT_THAT(in(wan, {1, 1, 0}), HasSubstr("set first_frame = true in the encode job"));
  EXPECT_EQ(TrainedFrames("flow", 1).objective.condition_input(latents()), ConditionInput::level)
      << "in_channels set by a named size";
  EXPECT_THAT(in(odd, {}), HasSubstr("model/times has 4 input channels and the latent 2"));
  EXPECT_THAT(test::refusal([&] {
                GivenDraw(options({}, {-3, 2}), t.loss, 0);
              }),
              HasSubstr("condition_frames = [0, 1]"));
  EXPECT_THAT(test::refusal([&] { GivenDraw(options({1}, {-3}), t.loss, 0); }),
              HasSubstr("condition_noise requires"));
}

}  // namespace
}  // namespace kinora::core
