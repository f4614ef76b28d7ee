// Samples of several shots: the loss and every gradient of one forward against the chunks of a generation,
// one after the other (shots_testing.hpp).
#include "plugins/jobs/training/shot_text_link.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/tensors/noise.hpp"
#include "plugins/jobs/training/objective.hpp"
#include "plugins/jobs/training/sample_draws.hpp"
#include "plugins/jobs/training/shots_testing.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/run_file.hpp"
#include "tests/support/worst.hpp"

namespace kinora::core::shot_text {
namespace {

using at::Tensor;
using namespace shots_testing;

constexpr int64_t B = 2, C = 2, kChunk = 2;

struct ShotCase {
  std::string model;
  int64_t shots = 2, chunks = 2, window = 0, sink = 0;  // chunks of each shot
  std::string pin = "own";
  int64_t frames() const { return shots * chunks * kChunk; }
};
std::string name_of(const ShotCase& c) {
  return fmt::format("{}_{}x{}_window_{}_{}_{}", c.model, c.shots, c.chunks, c.window, c.sink, c.pin);
}
void PrintTo(const ShotCase& c, std::ostream* out) { *out << name_of(c); }

TrainOptions options_of(const ShotCase& c) {
  TrainOptions o;
  o.teacher_forcing = true;
  o.chunk = kChunk, o.window = c.window, o.sink = c.sink;
  o.shots = c.shots, o.shot_pin = c.pin;
  return o;
}

json small(const std::string& model) {
  if (model == "wan")
    return {{"in_channels", C}, {"out_channels", C},        {"text_dim", 12}, {"num_layers", 2},
            {"freq_dim", 8},    {"num_attention_heads", 2}, {"ffn_dim", 24},  {"attention_head_dim", 12}};
  return {{"in_channels", C}, {"out_channels", C}, {"text_size", 12}, {"layers", 2},
          {"heads", 2},       {"head_size", 12},   {"adaln_lora", 4}};
}

// Weights that leave no layer at zero, the same for every chain.
class Network {
 public:
  Network(const std::string& model, const Frames& rule, const std::vector<const kinora_link*>& links)
      : component_(or_throw(test::runtime().registry().open("model/" + model))),
        options_(or_throw(Options::make(*component_.spec, small(model)))),
        network_(component_, options_, {.dtype = at::kDouble, .frames = rule}, links) {
    at::manual_seed(11);
    for (auto& leaf : network_.chain().leaves()) {
      const Tensor t = leaf.tensor.detach();
      t.copy_(at::randn(t.sizes(), at::kDouble) * (t.dim() > 1 ? 0.3 : 0.2) +
              (t.dim() == 1 && !leaf.name.ends_with("bias") ? 1 : 0));
    }
  }
  Model& model() { return network_; }
  const ComponentSpec& spec() const { return *component_.spec; }
  void add_gradients(std::vector<Tensor>& to) {
    for (auto& leaf : network_.chain().leaves())
      to.push_back(leaf.tensor.grad().defined() ? leaf.tensor.grad() : at::zeros_like(leaf.tensor));
  }

 private:
  Component component_;
  Options options_;
  Model network_;
};

class Flow {
 public:
  Flow()
      : component_(or_throw(test::runtime().registry().open("loss/flow"))),
        options_(or_throw(Options::make(*component_.spec, json::object()))),
        loss(component_, options_) {}

 private:
  Component component_;
  Options options_;

 public:
  LossInstance loss;
};

Tensor numbers(const std::string& key, const std::vector<int64_t>& shape) {
  return sample_noise(at::empty(shape, at::kDouble), 5, 0, key) * 0.5;
}

// The samples of a batch; texts of other lengths in each sample and shot.
struct Setting {
  explicit Setting(const ShotCase& c)
      : latent(numbers("latent", {B, C, c.frames(), 4, 4}).requires_grad_()),
        noise(numbers("noise", {B, C, c.frames(), 4, 4}) * 2) {
    for (int64_t i = 0; i < B * c.shots; ++i)
      texts.push_back(numbers(fmt::format("text.{}", i), {1 + (3 * i) % 4, 12}).requires_grad_());
  }
  std::vector<LatentItem> items(int64_t shots) const {
    std::vector<LatentItem> out;
    for (int64_t b = 0; b < B; ++b) {
      std::vector<Tensor> own(texts.begin() + b * shots, texts.begin() + (b + 1) * shots);
      LatentItem item{std::to_string(b), latent[b], at::cat(own), {}, {}};
      for (const auto& t : own) item.shots.push_back(t.size(0));
      out.push_back(std::move(item));
    }
    return out;
  }
  void add_gradients(std::vector<Tensor>& to) const {
    to.push_back(latent.grad());
    for (const auto& text : texts) to.push_back(text.grad());
  }
  Tensor latent, noise;
  std::vector<Tensor> texts;  // B * shots
};

class ShotsForward : public testing::TestWithParam<ShotCase> {};

TEST_P(ShotsForward, IsTheChunksOfAGeneration) {
  const ShotCase c = GetParam();
  const TrainOptions o = options_of(c);
  Flow flow;
  const Tensor levels = LevelDraw(o, flow.loss, 7)(3, B, c.frames(), "level");
  ShotTextLink by_shot(c.shots);
  Network joined(c.model, rule_of(o, {C, c.frames(), 4, 4}), {by_shot.get()});
  KeptWithGradients kept;
  Network plain(c.model, generating_rule(o), {kept.get()});
  const Setting one(c), other(c);
  const Objective objective(flow.loss, joined.model(), joined.spec(), at::kDouble, at::kDouble, at::kCPU, {},
                            0, 0.0);
  const Tensor got =
      objective.losses(objective.cpu_batch(one.items(c.shots), at::zeros({B}, at::kBool)), levels, one.noise);
  std::vector<Tensor> want;
  for (int64_t b = 0; b < B; ++b) {
    const auto of = [b](const Tensor& t) { return t.narrow(0, b, 1); };
    ShotSample sample{of(other.latent), of(other.noise), of(levels), {}};
    for (int64_t i = 0; i < c.shots; ++i)
      sample.texts.push_back(other.texts[static_cast<size_t>(b * c.shots + i)].unsqueeze(0));
    want.push_back(loss_by_chunks(plain.model(), kept, o, shot_rule(o), sample));
  }
  got.sum().backward();
  at::stack(want).sum().backward();
  std::vector<Tensor> results[2]{{got.detach()}, {at::stack(want).detach()}};
  one.add_gradients(results[0]), other.add_gradients(results[1]);
  joined.add_gradients(results[0]), plain.add_gradients(results[1]);
  ASSERT_EQ(results[0].size(), results[1].size());
  double most = 0;
  for (size_t i = 0; i < results[0].size(); ++i)
    most = test::worse(
        most, ((results[0][i] - results[1][i]).abs().max() / results[1][i].abs().max().clamp_min(1e-3))
                  .item<double>());
  EXPECT_LT(most, 1e-10);
}

INSTANTIATE_TEST_SUITE_P(Of, ShotsForward,
                         testing::Values(ShotCase{"dit"}, ShotCase{"cosmos"}, ShotCase{"wan"},
                                         ShotCase{"stdit"}, ShotCase{"dit", 3, 1},
                                         ShotCase{"dit", 3, 2, 2, 1}, ShotCase{"wan", 3, 2, 2, 0, "before"},
                                         ShotCase{"dit", 2, 3, 2, 0, "none"}),
                         [](const auto& info) { return name_of(info.param); });

// In the second shot only what its text, and earlier chunks, can change has another loss.
TEST(ShotText, OfAShotIsHiddenFromTheShotsBeforeIt) {
  const ShotCase c{"dit"};
  ShotTextLink by_shot(c.shots);
  Network network(c.model, rule_of(options_of(c), {C, c.frames(), 4, 4}), {by_shot.get()});
  const Setting s(c);
  const Tensor levels = at::full({B, c.frames()}, 0.5, at::kDouble);
  Flow flow;
  const Objective objective(flow.loss, network.model(), network.spec(), at::kDouble, at::kDouble, at::kCPU,
                            {}, 0, 0.0);
  const auto output = [&](const std::vector<LatentItem>& items) {
    const auto batch = objective.cpu_batch(items, at::zeros({B}, at::kBool));
    return network.model().forward(objective.inputs(batch, levels, s.noise)).at(0).detach();
  };
  auto items = s.items(c.shots);
  const Tensor before = output(items);
  for (auto& item : items)
    item.text = at::cat(
        {item.text.narrow(0, 0, item.shots[0]), item.text.narrow(0, item.shots[0], item.shots[1]) + 1});
  const Tensor moved = (output(items) - before).abs().amax({0, 1, 3, 4});  // of each frame of both streams
  const int64_t half = c.frames() / 2;
  for (int64_t stream = 0; stream < 2; ++stream) {
    const Tensor own = moved.narrow(0, stream * c.frames(), c.frames());
    EXPECT_EQ(own.narrow(0, 0, half).max().item<double>(), 0);
    EXPECT_GT(own.narrow(0, half, half).min().item<double>(), 1e-4);
  }
}

TEST(ShotText, NeedsCrossAttentionToTheTextsAlone) {
  ShotTextLink by_shot(2);
  const ShotCase c{"dit"};
  Network network(c.model, rule_of(options_of(c), {C, c.frames(), 4, 4}), {by_shot.get()});
  const Tensor x = numbers("x", {1, C, 2 * c.frames(), 4, 4}),
               t = at::zeros({1, 2 * c.frames()}, at::kDouble);
  EXPECT_THAT(
      test::refusal([&] {
        network.model().forward({{"latent", x}, {"timestep", t}, {"text", numbers("odd", {1, 5, 12})}});
      }),
      testing::HasSubstr("its 5 shared keys are not the texts of 2 shots alone"));
}

// Each shot jumps by phi, and positions, chunks and cuts are those of the same shots in a generation.
TEST(ShotRuleOfATraining, IsThatOfAGeneration) {
  TrainOptions o = options_of({"dit", 3, 2, 2, 1});
  o.shot_jump = 8;
  const Frames rule = rule_of(o, {C, 12, 4, 4});
  EXPECT_EQ(rule.streams, 2);
  EXPECT_THAT(rule.cuts, testing::ElementsAre(2, 4));
  EXPECT_EQ(rule.pin, Frames::Pin::own);
  EXPECT_THAT(rule.times, testing::ElementsAre(0, 1, 2, 3, 12, 13, 14, 15, 24, 25, 26, 27));
  o.shots = 1;
  EXPECT_TRUE(rule_of(o, {C, 12, 4, 4}).times.empty());
}

}  // namespace
}  // namespace kinora::core::shot_text
