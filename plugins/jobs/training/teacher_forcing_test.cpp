// Teacher forcing against its definition: chunk by chunk, the plain causal model on the earlier clean chunks
// and the noisy one, with the losses' formulas written out.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/tensors/noise.hpp"
#include "plugins/jobs/inference/frames.hpp"
#include "plugins/jobs/training/objective.hpp"
#include "plugins/jobs/training/sample_draws.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/run_file.hpp"
#include "tests/support/worst.hpp"

namespace kinora::core {
namespace {

using at::Tensor;

constexpr double kSigmaData = 0.5, kClean = 1e-4;
constexpr int64_t B = 2, C = 2, kPicture = 3;  // samples, channels, and channels of wan's `condition`

const std::map<std::string, json>& models() {
  static const json small{{"in_channels", C}, {"out_channels", C}, {"text_size", 12}, {"layers", 2},
                          {"heads", 2},       {"head_size", 12},   {"adaln_lora", 4}};
  static const json wan{{"in_channels", C}, {"out_channels", C},       {"text_dim", 12},
                        {"num_layers", 2},  {"freq_dim", 8},           {"num_attention_heads", 2},
                        {"ffn_dim", 24},    {"attention_head_dim", 12}};
  static const auto with = [](json out, json more) {
    out.update(more);
    return out;
  };
  static const std::map<std::string, json> all{{"dit", small},
                                               {"stdit", with(small, {{"full_attention", true}})},
                                               {"cosmos", with(small, {{"learnable_pos_embed", true}})},
                                               {"cosmos_mask", with(small, {{"in_channels", C + 1}})},
                                               {"cosmos_logvar", with(small, {{"logvar", true}})},
                                               {"wan", wan},
                                               {"wan_picture", with(wan, {{"in_channels", C + kPicture}})}};
  return all;
}

struct ForcedCase {
  std::string model, loss;
  int64_t frames = 5, chunk = 2, window = 0, sink = 0;
  std::string levels = "auto";
  int64_t first_chunk = 0;
};

std::string name_of(const ForcedCase& c) {
  return fmt::format("{}_{}_{}_by_{}_window_{}_{}", c.model, c.loss, c.frames, c.chunk, c.window, c.levels);
}
void PrintTo(const ForcedCase& c, std::ostream* out) { *out << name_of(c); }

TrainOptions options_of(const ForcedCase& c) {
  TrainOptions o;
  o.teacher_forcing = true;
  o.chunk = c.chunk, o.window = c.window, o.sink = c.sink;
  o.levels = c.levels;
  o.first_chunk = c.first_chunk;
  return o;
}

// A model's network with weights that leave no layer at zero.
class Made {
 public:
  Made(const std::string& model, const Frames& rule)
      : component_(or_throw(test::runtime().registry().open("model/" + model.substr(0, model.find('_'))))),
        options_(or_throw(Options::make(*component_.spec, models().at(model)))),
        network_(component_, options_, {.dtype = at::kDouble, .frames = rule}) {
    at::manual_seed(11);
    for (auto& leaf : network_.chain().leaves()) {
      const Tensor t = leaf.tensor.detach();
      t.copy_(at::randn(t.sizes(), at::kDouble) * (t.dim() > 1 ? 0.3 : 0.2) +
              (t.dim() == 1 && !leaf.name.ends_with("bias") ? 1 : 0));
    }
  }
  const ComponentSpec& spec() const { return *component_.spec; }
  Model& network() { return network_; }

 private:
  Component component_;
  Options options_;
  Model network_;
};

Tensor numbers(const std::string& key, std::vector<int64_t> shape) {
  return sample_noise(at::empty(shape, at::kDouble), 5, 0, key) * 0.5;
}
Tensor picture(const ForcedCase& c) { return numbers("picture", {B, kPicture, c.frames, 4, 4}); }
Tensor wide(const Tensor& levels) { return levels.view({levels.size(0), 1, levels.size(1), 1, 1}); }

// The loss of a latent at levels [b, n], given the noise and the model's output, by its paper.
struct Formula {
  bool flow;
  double clean() const { return flow ? 0 : kClean; }
  Tensor noisy(const Tensor& x0, const Tensor& n, const Tensor& s) const {
    return flow ? (1 - wide(s)) * x0 + wide(s) * n : x0 + wide(s) * n;
  }
  Tensor root(const Tensor& s) const { return (wide(s).square() + kSigmaData * kSigmaData).sqrt(); }
  Tensor seen(const Tensor& x, const Tensor& s) const { return flow ? x : x / root(s); }
  Tensor told(const Tensor& s) const { return flow ? 1000 * s : s.log() / 4; }
  // Squares of the weighted error.
  Tensor errors(const Tensor& x0, const Tensor& n, const Tensor& s, const Tensor& f) const {
    if (flow) return (f - (n - x0)).square();
    const Tensor w = wide(s),
                 d = kSigmaData * kSigmaData / root(s).square() * (x0 + w * n) + w * kSigmaData / root(s) * f;
    return (root(s) / (w * kSigmaData) * (d - x0)).square();
  }
};

// [b] losses, and the loss of every chunk.
Tensor by_definition(Made& causal, const ForcedCase& c, const Tensor& x0, const Tensor& noise,
                     const Tensor& sigma, const Tensor& text) {
  const Formula formula{c.loss == "flow"};
  Tensor sum = at::zeros({B}, at::kDouble);
  for (int64_t first = 0, n = 0; first < c.frames; first += n) {
    n = std::min(first == 0 && c.first_chunk > 0 ? c.first_chunk : c.chunk, c.frames - first);
    const auto own = [&](const Tensor& t) { return t.narrow(t.dim() == 2 ? 1 : 2, first, n); };
    const Tensor levels = at::cat({at::full({B, first}, formula.clean(), at::kDouble), own(sigma)}, 1);
    const Tensor x = at::cat({x0.narrow(2, 0, first), formula.noisy(own(x0), own(noise), own(sigma))}, 2);
    NamedTensors in{{"latent", formula.seen(x, levels)}, {"timestep", formula.told(levels)}, {"text", text}};
    if (c.model == "cosmos_mask") {
      in["condition_mask"] = at::zeros({B, 1, first + n, x0.size(3), x0.size(4)}, at::kDouble);
      in["condition_mask"].narrow(2, 0, first).fill_(1);
    }
    if (c.model == "wan_picture") in["condition"] = picture(c).narrow(2, 0, first + n);
    const auto out = causal.network().forward(in);
    Tensor errors = formula.errors(own(x0), own(noise), own(sigma), own(out[0]));
    if (c.model == "cosmos_logvar") errors = errors * (-wide(own(out[1]))).exp() + wide(own(out[1]));
    sum = sum + errors.sum({1, 2, 3, 4});
  }
  return sum / static_cast<double>(x0[0].numel());
}

double most_apart(const Tensor& a, const Tensor& b) {
  return ((a - b).abs().max() / b.abs().max().clamp_min(1e-3)).item<double>();
}

class TeacherForcing : public testing::TestWithParam<ForcedCase> {};

TEST_P(TeacherForcing, IsThePlainCausalModelChunkByChunk) {
  const ForcedCase c = GetParam();
  const TrainOptions o = options_of(c);
  const auto opened = or_throw(test::runtime().registry().open("loss/" + c.loss));
  const auto loss_options = or_throw(Options::make(*opened.spec, json::object()));
  LossInstance loss(opened, loss_options);
  Made two(c.model, training_rule(o)), causal(c.model, generating_rule(o));
  const int64_t in_channels = models().at(c.model).at("in_channels");
  const Objective objective(loss, two.network(), two.spec(), at::kDouble, at::kDouble, at::kCPU, {},
                            in_channels, level_of(clean_sigma(loss, kClean), loss.mix()));
  const Tensor noise = numbers("noise", {B, C, c.frames, 4, 4}) * 2,
               drawn = LevelDraw(o, loss, 7)(3, B, c.frames, "level"),
               sigma = drawn.dim() == 2 ? drawn : drawn.unsqueeze(1).expand({B, c.frames});
  std::vector<Tensor> results[2];
  for (const bool closed : {false, true}) {
    const Tensor x0 = numbers("latent", {B, C, c.frames, 4, 4}).requires_grad_(),
                 text = numbers("text", {B, 3, 12}).requires_grad_();
    NamedTensors batch{{"latent", x0}, {"text", text}};
    if (c.model == "wan_picture") batch["condition"] = picture(c);
    const Tensor losses =
        closed ? by_definition(causal, c, x0, noise, sigma, text) : objective.losses(batch, drawn, noise);
    losses.sum().backward();
    results[closed] = {losses.detach(), x0.grad(), text.grad()};
    for (auto& leaf : (closed ? causal : two).network().chain().leaves())
      results[closed].push_back(leaf.tensor.grad().defined() ? leaf.tensor.grad()
                                                             : at::zeros_like(leaf.tensor));
  }
  double most = 0;
  for (size_t i = 0; i < results[0].size(); ++i)
    most = test::worse(most, most_apart(results[0][i], results[1][i]));
  EXPECT_LT(most, 1e-10);
  RecordProperty("worst", fmt::format("{:.1e}", most));
}

INSTANTIATE_TEST_SUITE_P(Of, TeacherForcing,
                         testing::Values(ForcedCase{"dit", "flow"}, ForcedCase{"dit", "edm"},
                                         ForcedCase{"cosmos", "edm"}, ForcedCase{"cosmos", "flow"},
                                         ForcedCase{"cosmos_mask", "edm"}, ForcedCase{"cosmos_logvar", "edm"},
                                         ForcedCase{"wan_picture", "flow"}, ForcedCase{"wan", "flow"},
                                         ForcedCase{"wan", "edm"}, ForcedCase{"stdit", "flow"},
                                         ForcedCase{"dit", "flow", 6, 1, 3, 1},
                                         ForcedCase{"wan", "flow", 7, 2, 2, 1},
                                         ForcedCase{"dit", "edm", 4, 3, 0, 0, "frame"},
                                         ForcedCase{"dit", "flow", 6, 2, 0, 0, "sample"},
                                         ForcedCase{"dit", "flow", 7, 3, 0, 0, "auto", 1},
                                         ForcedCase{"wan", "flow", 6, 2, 2, 1, "auto", 1},
                                         ForcedCase{"dit", "edm", 7, 2, 2, 0, "auto", 3}),
                         [](const auto& info) { return name_of(info.param); });

std::unique_ptr<LossInstance> loss_named(const std::string& id) {
  static std::vector<std::unique_ptr<Options>> kept;
  const auto opened = or_throw(test::runtime().registry().open("loss/" + id));
  kept.push_back(std::make_unique<Options>(or_throw(Options::make(*opened.spec, json::object()))));
  return std::make_unique<LossInstance>(opened, *kept.back());
}

// The loss defines its clean level: a flow's timestep is 0, and EDM has no logarithm of 0.
TEST(CleanFrames, AreToldAsTheLossCanSay) {
  EXPECT_EQ(clean_sigma(*loss_named("flow"), kClean), 0);
  EXPECT_EQ(clean_sigma(*loss_named("edm"), kClean), kClean);
}

TEST(LevelDraw, IsOneASampleAChunkOrAFrame) {
  const auto loss = loss_named("flow");
  TrainOptions o;
  const auto levels = [&](const TrainOptions& of, int64_t first, int64_t count) {
    return LevelDraw(of, *loss, 7)(first, count, 7, "level");
  };
  EXPECT_TRUE(levels(o, 0, 4).equal(loss->level(sample_uniform({4}, 7, 0, "level")))) << "one per sample";
  o.teacher_forcing = true, o.chunk = 3;
  const Tensor chunks = levels(o, 0, 400);
  EXPECT_EQ(chunks.sizes(), (std::vector<int64_t>{400, 7}));
  for (const int64_t frame : {1, 2, 4, 5})
    EXPECT_TRUE(chunks.select(1, frame).equal(chunks.select(1, frame - frame % 3))) << frame;
  const auto correlation = [&](int64_t a, int64_t b) {
    const Tensor x = chunks.select(1, a) - 0.5, y = chunks.select(1, b) - 0.5;
    return ((x * y).mean() / (x.square().mean() * y.square().mean()).sqrt()).item<double>();
  };
  EXPECT_LT(std::abs(correlation(0, 3)), 0.15) << "independent";
  EXPECT_LT(std::abs(correlation(3, 6)), 0.15);
  EXPECT_TRUE(levels(o, 17, 5).equal(chunks.narrow(0, 17, 5))) << "independent of the batch";
  o.first_chunk = 1;
  const Tensor led = levels(o, 0, 4);
  for (const auto& [frame, begin] : {std::pair{2, 1}, {3, 1}, {5, 4}, {6, 4}})
    EXPECT_TRUE(led.select(1, frame).equal(led.select(1, begin))) << frame;
  for (const auto& [frame, other] : {std::pair{0, 1}, {1, 4}, {0, 4}})
    EXPECT_FALSE(led.select(1, frame).eq(led.select(1, other)).any().item<bool>()) << frame;
  o.levels = "frame";
  EXPECT_FALSE(levels(o, 0, 4).select(1, 0).equal(levels(o, 0, 4).select(1, 1)));
}

TEST(TeacherForced, SaysWhatDoesNotFit) {
  using testing::HasSubstr;
  const auto flow = loss_named("flow"), codes = loss_named("next-token");
  const auto said = [&](const std::function<void(TrainOptions&)>& change, const LossInstance& loss) {
    TrainOptions o;
    change(o);
    return test::refusal([&] { LevelDraw::require(o, loss); });
  };
  EXPECT_THAT(said([](auto& o) { o.chunk = 2; }, *flow),
              HasSubstr("chunk applies to causal frames; add causal"));
  EXPECT_THAT(said([](auto& o) { o.first_chunk = 1; }, *flow),
              HasSubstr("first_chunk applies to causal frames; add causal"));
  EXPECT_THAT(said([](auto& o) { o.causal = true, o.sink = 1; }, *flow),
              HasSubstr("set window, such as window = 4"));
  EXPECT_THAT(said([](auto& o) { o.levels = "chunk"; }, *flow), HasSubstr("or choose \"frame\""));
  EXPECT_THAT(said([](auto& o) { o.teacher_forcing = true; }, *codes),
              HasSubstr("teacher_forcing: loss/next-token draws no noise"));
  EXPECT_THAT(said([](auto& o) { o.teacher_forcing = true, o.condition_frames = {1}; }, *flow),
              HasSubstr("leave condition_frames empty"));
  TrainOptions o;
  o.teacher_forcing = true, o.chunk = 3;
  ComponentSpec model;
  model.id = "model/plain";
  model.inputs.push_back({"timestep", "[B]", "float", ""});
  EXPECT_THAT(test::refusal([&] { require_levels(o, model, Options(), 6); }),
              HasSubstr("model/plain does not take one noise level per frame (its input `timestep` is [B])"));
  model.inputs[0].shape = "[B] or [B, F]";
  EXPECT_THAT(test::refusal([&] { require_levels(o, model, Options(), 3); }),
              HasSubstr("3 latent frames are one chunk of 3; lower chunk"));
  EXPECT_TRUE(require_levels(o, model, Options(), 4));
  o.first_chunk = 4;
  EXPECT_THAT(test::refusal([&] { require_levels(o, model, Options(), 4); }),
              HasSubstr("4 latent frames are one chunk of 4; lower first_chunk"));
  o.first_chunk = 1;
  EXPECT_TRUE(require_levels(o, model, Options(), 3)) << "a frame and a chunk";
  Made dit("dit", training_rule(o));
  const Objective objective(*flow, dit.network(), dit.spec(), at::kDouble, at::kDouble, at::kCPU, {}, 0, 0.0);
  const Tensor packed = numbers("packed", {1, C, 40});
  EXPECT_THAT(test::refusal([&] {
                objective.losses({{"latent", packed}}, at::full({1}, 0.5, at::kDouble), packed);
              }),
              HasSubstr("a packed row has no noisy copy"));
}

}  // namespace
}  // namespace kinora::core
