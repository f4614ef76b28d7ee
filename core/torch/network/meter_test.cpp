// Operations of model/cosmos in closed form, and that counting them allocates nothing.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugin/manifest.hpp"
#include "core/torch/network/meter_link.hpp"
#include "core/torch/network/model.hpp"
#include "core/torch/network/throughput.hpp"
#include "kinora/model.hpp"
#include "tests/support/component.hpp"
#include "tests/support/oracle.hpp"

namespace kinora::core {
namespace {

using at::Tensor;

Tensor meta(std::vector<int64_t> shape) {
  return at::empty(shape, at::TensorOptions().dtype(at::kFloat).device(at::kMeta));
}

struct Made {
  Component component;
  Options options;
  Made(const char* id, const json& given)
      : component(or_throw(test::plugins().open(id))),
        options(or_throw(Options::make(*component.spec, given))) {}
};

// B batch, D width, R rank of AdaLN-LoRA, M the MLP's width, E the text's width, L its length, n tokens,
// c and p channels and values of a patch; L_ layers.
struct Cosmos {
  double layers, D, R = 64, M, E = 384, c = 16, p = 4;
  double linear(double B, double n, double L) const {
    const double conditioning = D * R + R * 3 * D, block = 3 * B * conditioning + 4 * B * n * D * D +
                                                           2 * B * n * D * D + 2 * B * L * E * D +
                                                           2 * B * n * D * M;
    const double ends =
        B * n * (c * p) * D + B * D * D + B * D * 3 * D + B * (D * R + R * 2 * D) + B * n * D * (c * p);
    return 2 * (layers * block + ends);
  }
  double attention(double B, double n, double L) const {
    return layers * (4 * B * n * n * D + 4 * B * n * L * D);
  }
};

TEST(Meter, CountsTheCosmosTransformerInClosedForm) {
  const std::pair<json, Cosmos> sizes[] = {
      {{{"layers", 12}, {"heads", 6}, {"head_size", 64}}, {12, 384, 64, 4 * 384}},
      {{{"layers", 36}, {"heads", 40}, {"head_size", 128}}, {36, 5120, 64, 4 * 5120}},
      {{{"layers", 3},
        {"heads", 2},
        {"head_size", 12},
        {"mlp_ratio", 1.5},
        {"adaln_lora", 6},
        {"text_size", 10}},
       {3, 24, 6, 36, 10}}};
  for (const auto& [given, dit] : sizes) {
    const Made made("model/cosmos", given);
    const double B = 2, n = 4 * 5 * 6, L = 7;
    const auto f = model_flops(made.component, made.options,
                               {{"latent", meta({2, 16, 4, 10, 12})},
                                {"timestep", meta({2})},
                                {"text", meta({2, 7, static_cast<int64_t>(dit.E)})}});
    EXPECT_EQ(f.linear_total(), dit.linear(B, n, L)) << given;
    EXPECT_EQ(f.attention_total(), dit.attention(B, n, L)) << given;
    EXPECT_EQ(f.convolution, 0);
    EXPECT_EQ(f.attention.at("transformer_blocks.1.attn1"), 4 * B * n * n * dit.D);
    EXPECT_EQ(f.linear.at("proj_out.weight"), 2 * B * n * dit.D * 64);
  }
}

// The counts of a real model are the same, and the blocks' second run is not counted.
TEST(Meter, IsTheSameOnARealModelAndCountsNoRecomputation) {
  const json given = {{"layers", 2}, {"heads", 2}, {"head_size", 12}, {"text_size", 10}};
  const Made made("model/cosmos", given);
  const test::Recompute recompute;
  MeterLink meter;
  Model net(made.component, made.options, {.dtype = at::kDouble}, {meter.get(), recompute.get()});
  const NamedTensors in{{"latent", at::randn({1, 16, 2, 4, 6}, at::kDouble)},
                        {"timestep", at::rand({1}, at::kDouble)},
                        {"text", at::randn({1, 3, 10}, at::kDouble)}};
  kinora_pass pass{};
  pass.struct_size = sizeof pass;
  net.chain().begin(pass);
  net.forward(in)[0].sum().backward();
  EXPECT_EQ(meter.flops().total(), model_flops(made.component, made.options, in).total());
  const Cosmos dit{2, 24, 64, 4 * 24, 10};
  EXPECT_EQ(meter.flops().total(), dit.linear(1, 2 * 2 * 3, 3) + dit.attention(1, 2 * 2 * 3, 3));
}

// Three packed videos: each sees itself and its own text, in the real model as on the meta device.
TEST(Meter, CountsAPackedRowInClosedForm) {
  const json given = {{"in_channels", 4}, {"out_channels", 4}, {"layers", 2},    {"heads", 2},
                      {"head_size", 12},  {"text_size", 10},   {"adaln_lora", 8}};
  const double D = 24, L = 5, layers = 2;
  struct Size {
    double F, space;
    double tokens() const { return F * space; }
  };
  const std::vector<Size> tokens = {{3, 6}, {1, 2}, {2, 3}};
  const NamedTensors in{
      {"latent", at::randn({1, 4, 3 * 24 + 8 + 2 * 12}, at::kDouble)},
      {"sizes", at::tensor({3, 4, 6, 1, 2, 4, 2, 2, 6}, at::kLong).view({3, 3})},
      {"timestep", at::rand({3}, at::kDouble)},
      {"text", at::randn({3, 5, 10}, at::kDouble)},
      {"text_mask", at::tensor({1, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0}).view({3, 5})}};
  for (const char* id : {"model/dit", "model/stdit"}) {
    const Made made(id, given);
    MeterLink meter;
    Model net(made.component, made.options, {.dtype = at::kDouble}, {meter.get()});
    net.forward(in);
    const Flops f = model_flops(made.component, made.options, in);
    double full = 0, cross = 0, space = 0, time = 0, all = 0;
    for (const auto& s : tokens) {
      full += s.tokens() * s.tokens(), cross += s.tokens() * L, all += s.tokens();
      space += s.tokens() * s.space, time += s.tokens() * s.F;
    }
    const bool factorised = std::string(id) == "model/stdit";
    EXPECT_EQ(f.attention_total(), layers * 4 * D * (full + cross + (factorised ? space + time : 0))) << id;
    EXPECT_EQ(f.linear.at("x_embedder.weight"), 2 * all * 16 * D);
    EXPECT_EQ(meter.flops().attention, f.attention);
    EXPECT_EQ(meter.flops().linear, f.linear);
  }
}

// [ci, T, H, W] by kernels of 3 x 3 x 3: each output is 27 ci products.
TEST(Meter, CountsConvolutions) {
  const ConvolutionMeter meter;
  at::conv3d(meta({2, 3, 6, 7, 8}), meta({5, 3, 3, 3, 3}), {}, {1, 1, 1}, at::IntArrayRef{0, 0, 0});
  EXPECT_EQ(meter.flops(), 2.0 * 2 * 5 * 4 * 5 * 6 * 27 * 3);
  at::conv_transpose2d(meta({1, 4, 5, 6}), meta({4, 2, 3, 3}));
  EXPECT_EQ(meter.flops(), 2.0 * 2 * 5 * 4 * 5 * 6 * 27 * 3 + 2.0 * 4 * 5 * 6 * 2 * 9);
}

TEST(Meter, CountsATokenizersConvolutions) {
  const Made made("tokenizer/cosmos", json::object());
  const auto of = [&](int64_t width) {
    return tokenizer_flops(made.component, made.options, meta({1, 3, 9, 64, width}));
  };
  const auto [encode, decode] = of(64);
  // 3 latent frames of 16 x 16 patches of 3 x 64 values, then of 8 x 8; 32, 64 and 64 channels.
  constexpr double fine = 3 * 16 * 16, coarse = 3 * 8 * 8;
  const auto factorised = [](double in, double out) { return 2 * out * (9 * in + 3 * out); };
  const auto resnet = [&](double in, double out) { return factorised(in, out) + factorised(out, out); };
  const double resampling = 2 * 9 * 64 * 64;
  EXPECT_EQ(encode->convolution,
            fine * (factorised(192, 32) + resnet(32, 64)) +
                coarse * (resampling + resnet(64, 64) + 2 * resnet(64, 64) + factorised(64, 8)));
  EXPECT_EQ(of(128).encode->convolution, 2 * encode->convolution);
  EXPECT_EQ(decode->convolution,
            coarse * (factorised(8, 64) + 2 * resnet(64, 64) + 2 * resnet(64, 64)) +
                fine * (resampling + resnet(64, 32) + resnet(32, 32) + factorised(32, 192)));
}

// A model that reads a value, which the meta device does not have.
struct Curious : kinora::Model<Tensor> {
  struct Options {};
  static void describe(Describe<Options>& d) {
    d.name("curious").input("x", "[B, 4]", "float").output("y", "[B, 4]", "float");
  }
  Curious(const Options&, const Context<Tensor>& ctx) {
    w = ctx.parameter({.name = "w.weight", .shape = {4, 4}});
  }
  std::vector<Tensor> forward(const Context<Tensor>& ctx, const Named<Tensor>& in) override {
    return {ctx.linear(in["x"], w, 0, 0) * in["x"].sum().item<double>()};
  }
  int64_t blocks() const override { return 0; }
  kinora_param w;
};

TEST(Meter, OfAModelThatCannotRunThereSaysWhy) {
  test::plugins();
  const ComponentSpec spec = test::component(described<Curious>().toml("model"));
  const Component component{&spec, nullptr, kinora::Model<Tensor>::api<Curious>()};
  const Options options = or_throw(Options::make(spec, json::object()));
  std::string why;
  EXPECT_EQ(training_flops(component, options, {{"x", meta({1, 4})}}, false, why), 0);
  EXPECT_THAT(why,
              testing::AllOf(testing::HasSubstr("model/curious"), testing::Not(testing::HasSubstr("\n"))));
  json line;
  Throughput{}.add(line, 1, 1, 1);
  EXPECT_FALSE(line.contains("flops_per_second"));
  EXPECT_TRUE(line.contains("samples_per_second"));
}

// Anonymous memory of this process in bytes, which allocations increase.
int64_t anonymous() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("RssAnon", 0) == 0) return std::stoll(line.substr(line.find(':') + 1)) * 1024;
  return -1;
}

TEST(Meter, DescribesTwentyEightBillionParametersWithoutMemory) {
  const json given = {{"layers", 60}, {"heads", 48}, {"head_size", 128}};
  const Made made("model/cosmos", given);
  const int64_t before = anonymous();
  int64_t numel = 0;
  for (const auto& p : parameters_of(made.component, made.options)) numel += p.numel();
  EXPECT_GT(numel, 28'000'000'000);
  const auto f = model_flops(
      made.component, made.options,
      {{"latent", meta({1, 16, 21, 90, 160})}, {"timestep", meta({1})}, {"text", meta({1, 512, 384})}});
  const Cosmos dit{60, 48 * 128, 64, 4 * 48 * 128};
  const double n = 21 * 45 * 80, L = 512;
  EXPECT_DOUBLE_EQ(f.total(), dit.linear(1, n, L) + dit.attention(1, n, L));
  EXPECT_LT(anonymous() - before, int64_t{64} << 20);
}

}  // namespace
}  // namespace kinora::core
