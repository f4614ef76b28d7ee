// Tests what reaches a model and a loss, with components made for it: names in manifests decide.
#include "plugins/jobs/training/objective.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/aten.hpp"
#include "kinora/loss.hpp"
#include "kinora/model.hpp"
#include "tests/support/plugins.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using at::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> seen_by_model, seen_by_loss;
const std::vector<std::string> kNames{"camera", "camera_mask", "codes",   "latent",     "logvar",
                                      "mood",   "noise",       "output",  "prediction", "sigma",
                                      "text",   "text_mask",   "timestep"};
std::vector<std::string> seen(const Named<Tensor>& in) {
  std::vector<std::string> out;
  for (const auto& n : kNames)
    if (in.has(n)) out.push_back(n);
  return out;
}

// A model with two outputs: the sum of its conditions, and a log-variance.
struct TwoOutputs : kinora::Model<Tensor> {
  struct Options {};
  static void describe(Describe<Options>& d) {
    d.name("two");
    d.input("latent", "[B, C, T, H, W]", "float")
        .input("timestep", "[B]", "float")
        .input("text", "[B, L, D]", "float");
    d.input("camera", "[B, L, D]", "float")
        .input("camera_mask", "[B, L]", "bool")
        .input("codes", "[B, t, h, w]", "int32");
    d.output("output", "[B, ...]", "float").output("logvar", "[B]", "float");
  }
  TwoOutputs(const Options&, const Context<Tensor>& ctx) { w = ctx.parameter({"w", {1}, Init::ones()}); }
  std::vector<Tensor> forward(const Context<Tensor>& ctx, const Named<Tensor>& in) override {
    seen_by_model = seen(in);
    const Tensor x = in.has("codes") ? in["codes"].to(at::kFloat) : in["latent"];
    return {x * ctx.value(w), at::full({x.size(0)}, 3)};
  }
  int64_t blocks() const override { return 0; }
  kinora_param w;
};

// A loss without noise: mean over codes, plus the second output.
struct OnCodes : Loss<Tensor> {
  struct Options {};
  static void describe(Describe<Options>& d) {
    d.name("codes").input("codes", "[B, t, h, w]", "int32").input("output", "[B, ...]", "float");
    d.output("loss", "[B]", "float");
  }
  explicit OnCodes(const Options&) {}
  Tensor noisy(const Tensor&, const Tensor&, const Tensor&) override {
    throw Error(KINORA_ERROR_UNSUPPORTED, "no noise");
  }
  Input input(const Tensor&, const Tensor&) override { throw Error(KINORA_ERROR_UNSUPPORTED, "no noise"); }
  Tensor estimate(const Tensor&, const Tensor&, const Tensor&) override {
    throw Error(KINORA_ERROR_UNSUPPORTED, "no noise");
  }
  std::vector<Tensor> evaluate(const Named<Tensor>& in) override {
    seen_by_loss = seen(in);
    return {in["output"].flatten(1).mean(1) + in["logvar"]};
  }
};
struct WithNoise : OnCodes {
  static void describe(Describe<Options>& d) {
    d.name("noisy").input("latent", "[B, ...]", "float").output("loss", "[B]", "float");
  }
  using OnCodes::OnCodes;
  Tensor level(const Tensor& u) override { return u; }
  Tensor noisy(const Tensor& x, const Tensor& n, const Tensor& s) override {
    return x + n * s.view({-1, 1, 1, 1, 1});
  }
  Input input(const Tensor& x, const Tensor& s) override { return {x, s}; }
  Tensor estimate(const Tensor& x, const Tensor&, const Tensor& output) override { return x - output; }
};

ComponentSpec spec_of(const std::string& id, std::vector<const char*> inputs,
                      std::vector<const char*> outputs) {
  ComponentSpec out;
  out.id = id;
  out.kind = id.substr(0, id.find('/'));
  out.name = id.substr(id.find('/') + 1);
  for (const char* n : inputs) out.inputs.emplace_back().name = n;
  for (const char* n : outputs) out.outputs.emplace_back().name = n;
  return out;
}

struct TrainedObjective {
  ComponentSpec model = spec_of("model/two", {"latent", "timestep", "text", "camera", "camera_mask", "codes"},
                                {"output", "logvar"}),
                loss_spec;
  LossInstance loss;
  Model network;
  Objective objective;
  template <class L>
  TrainedObjective(L*, ComponentSpec spec)
      : loss_spec((test::plugins(), std::move(spec))),
        loss({&loss_spec, nullptr, L::template api<L>()}, Options()),
        network({&model, nullptr, TwoOutputs::api<TwoOutputs>()}, Options(), {}),
        objective(loss, network, model, at::kFloat, at::kFloat) {}
};

TrainedObjective on_codes() {
  return {static_cast<OnCodes*>(nullptr), spec_of("loss/codes", {"codes", "output"}, {"loss"})};
}

LatentData::Item item(double value, NamedTensors more, bool latent = true) {
  return {std::to_string(value), latent ? at::full({1, 1, 1, 2}, value) : Tensor(), at::ones({2, 3}),
          std::move(more)};
}
const Tensor kKeepText = at::zeros({2}, at::kBool);

TEST(Objective, TrainsOnCodesWithoutNoise) {
  auto t = on_codes();
  EXPECT_FALSE(t.objective.noisy());
  const auto batch = t.objective.batch({item(0, {{"codes", at::full({1, 1, 2}, 5, at::kInt)}}, false),
                                        item(1, {{"codes", at::full({1, 1, 2}, 9, at::kInt)}}, false)},
                                       kKeepText);
  const Tensor losses = t.objective.losses(batch, {}, {});
  EXPECT_THAT(seen_by_model, ElementsAre("codes", "text"));
  EXPECT_THAT(seen_by_loss, ElementsAre("codes", "logvar", "output", "prediction"));
  EXPECT_EQ(losses[0].item<float>(), 8);
  EXPECT_EQ(losses[1].item<float>(), 12);
  losses.sum().backward();
  EXPECT_EQ(t.network.chain().leaves()[0].tensor.grad().item<float>(), 14) << "5 + 9";
}

TEST(Objective, GivesTheModelWhatItsManifestListsAndTheLossEveryOutput) {
  TrainedObjective t(static_cast<WithNoise*>(nullptr), spec_of("loss/noisy", {"latent"}, {"loss"}));
  EXPECT_TRUE(t.objective.noisy());
  const auto batch =
      t.objective.batch({item(1, {{"camera", at::ones({1, 4})}, {"mood", at::ones({1})}}),
                         item(2, {{"camera", at::full({3, 4}, 2.0)}, {"mood", at::ones({1})}})},
                        at::tensor({1, 0}).to(at::kBool));
  EXPECT_EQ(batch.count("mood"), 0u);
  EXPECT_EQ(batch.at("text").sum().item<float>(), 6) << "the text of one of two samples";
  EXPECT_EQ(batch.at("camera").sizes(), (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(batch.at("camera_mask").sum().item<int64_t>(), 4);
  const Tensor sigma = at::tensor({0.5, 0.25}, at::kDouble), noise = at::ones({2, 1, 1, 1, 2});
  const Tensor losses = t.objective.losses(batch, sigma, noise);
  EXPECT_THAT(seen_by_model, ElementsAre("camera", "camera_mask", "latent", "text", "timestep"));
  EXPECT_THAT(seen_by_loss, ElementsAre("latent", "logvar", "noise", "output", "prediction", "sigma"));
  EXPECT_FLOAT_EQ(losses[0].item<float>(), 4.5);
  EXPECT_FLOAT_EQ(losses[1].item<float>(), 5.25);
}

TEST(Objective, SaysWhatDoesNotFit) {
  TrainedObjective t(static_cast<WithNoise*>(nullptr), spec_of("loss/noisy", {"latent"}, {"loss"}));
  const auto codes =
      t.objective.batch({item(0, {{"codes", at::ones({1, 1, 2}, at::kInt)}}, false)}, kKeepText);
  EXPECT_THAT(test::refusal([&] { t.objective.losses(codes, at::ones({1}), {}); }),
              HasSubstr("loss/noisy adds noise to latents"));
  EXPECT_THAT(test::refusal([&] {
                t.objective.batch({item(0, {{"camera", at::ones({1, 4})}}), item(1, {})}, kKeepText);
              }),
              HasSubstr("sample '1.000000' of the latent cache has no tensor 'camera'"));
  t.model.inputs.erase(t.model.inputs.begin() + 4);
  EXPECT_THAT(test::refusal([&] {
                t.objective.batch(
                    {item(0, {{"camera", at::ones({1, 4})}}), item(1, {{"camera", at::ones({2, 4})}})},
                    kKeepText);
              }),
              HasSubstr("no input 'camera_mask'"));
}

}  // namespace
}  // namespace kinora::core
