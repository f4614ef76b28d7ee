// tokenizer/wan against diffusers' AutoencoderKLWan: encode, decode, tiles, gradients; the published options.
#include <algorithm>

#include "core/torch/network/tokenizer.hpp"
#include "kinora/link.hpp"
#include "plugins/tokenizers/wan/config.hpp"
#include "plugins/tokenizers/wan/wan_fixture.hpp"

namespace kinora {
namespace {

using at::Tensor;
using test::difference;
using test::Wan;
using test::WanCase;

double bound(at::ScalarType dtype) { return dtype == at::kDouble ? 1e-10 : 1e-5; }

class WanTokenizer : public ::testing::TestWithParam<std::tuple<const char*, at::ScalarType>> {
 protected:
  void record(const char* what, double error, double slack = 1) {
    EXPECT_LT(error, slack * bound(std::get<1>(GetParam()))) << what;
    RecordProperty(what, std::to_string(error * 1e16) + "e-16");
  }
};

TEST_P(WanTokenizer, EncodesAndDecodesAsDiffusers) {
  const auto [name, dtype] = GetParam();
  const WanCase c(name);
  Wan raw(c.with({{"normalise", false}}), dtype), normalised(c.options, dtype);
  const Tensor video = c.video().to(dtype), expected = c.exact("moments");
  Tensor moments;
  const Tensor mode = raw.encode(video, &moments);
  record("moments", difference(moments, expected));
  EXPECT_TRUE(mode.equal(moments.narrow(1, 0, mode.size(1))));
  const Tensor decoded = raw.decode(c.code().to(dtype));
  record("decoded", difference(test::every(decoded, 3), c.exact("decoded")));

  const Tensor latent = normalised.encode(video, &moments);
  record("normalised", difference(latent, c.exact("normalised")));
  EXPECT_TRUE(latent.equal(moments.narrow(1, 0, latent.size(1))));
  // Mode and standard deviation belong to one distribution: both are divided by latents_std.
  const Tensor std = at::tensor(c.options["latents_std"].get<std::vector<double>>(), at::kDouble);
  const auto z = latent.size(1);
  record("log variance", difference(moments.narrow(1, z, z),
                                    expected.narrow(1, z, z) - 2 * std.log().view({1, -1, 1, 1, 1})));
  const Tensor mean = at::tensor(c.options["latents_mean"].get<std::vector<double>>(), at::kDouble);
  const auto scaled = (c.code() - mean.view({1, -1, 1, 1, 1})) / std.view({1, -1, 1, 1, 1});
  record("decoded of normalised", difference(normalised.decode(scaled.to(dtype)), decoded));
}

// grad of the encoder's mode and of the decoder's video, each times fixed numbers.
void backward(Wan& wan, Tensor& video, Tensor& code) {
  const Tensor latent = wan.encode(video);
  (latent * test::numbers("grad_latent", latent.sizes()).to(latent.dtype())).sum().backward();
  const Tensor decoded = wan.decode(code);
  (decoded * test::numbers("grad_video", decoded.sizes()).to(decoded.dtype())).sum().backward();
}

std::map<std::string, Tensor> gradients(Wan& wan) {
  std::map<std::string, Tensor> out;
  for (size_t i = 0; i < wan.chain().leaves().size(); ++i) {
    const auto& leaf = wan.chain().leaves()[i].tensor;
    out[wan.chain().parameters()[i].name] = leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf);
  }
  return out;
}

TEST_P(WanTokenizer, HasTheGradientsOfDiffusersAndOfRecompute) {
  const auto [name, dtype] = GetParam();
  const WanCase c(name);
  const test::Recompute recompute;
  // diffusers' own float32 is up to 4.4e-6 from its float64; ours was up to 1.15e-5 on a processor without
  // AVX-512.
  const double slack = dtype == at::kFloat ? 2 : 1;
  for (const auto& links : {std::vector<const kinora_link*>{}, {recompute.get()}}) {
    Wan wan(c.with({{"normalise", false}}), dtype, links);
    Tensor video = c.video().to(dtype).requires_grad_(), code = c.code().to(dtype).requires_grad_();
    backward(wan, video, code);
    record("video", difference(test::every(video.grad(), 3), c.exact("grad_video")), slack);
    record("code", difference(code.grad(), c.exact("grad_code")), slack);
    const auto found = gradients(wan);
    std::vector<Tensor> dots;
    for (const auto& [parameter, g] : found)
      dots.push_back((g.to(at::kDouble) * test::numbers("dot." + parameter, g.sizes())).sum());
    record("every parameter", difference(at::stack(dots), c.exact("dots")), slack);
    const auto whole = c.under("grad.");
    EXPECT_FALSE(whole.empty());
    for (const auto& [parameter, expected] : whole)
      record(parameter.c_str(), difference(found.at(parameter), expected), slack);
  }
}

using WanTiled = WanTokenizer;

TEST_P(WanTiled, IsTiledInSpaceAsDiffusersIs) {
  const auto [name, dtype] = GetParam();
  const WanCase c(name);
  Wan wan(c.with({{"normalise", false}}), dtype);
  core::json options = c.tiled();
  options["normalise"] = false;
  Wan tiled(options, dtype);
  const int64_t time = c.options["scale_factor_temporal"];
  const Tensor video = c.video("wide", 1 + time, 2).to(dtype), code = c.code().narrow(2, 0, 2).to(dtype);
  Tensor moments, whole;
  tiled.encode(video, &moments);
  wan.encode(video, &whole);
  record("moments", difference(moments, c.exact("tiled_moments")));
  const Tensor decoded = tiled.decode(code);
  record("decoded", difference(test::every(decoded, 5), c.exact("tiled_decoded")));
  EXPECT_GT(difference(moments, whole), 1e-4) << "the case has no tiles";
  EXPECT_GT(difference(decoded, wan.decode(code)), 1e-4) << "the case has no tiles";
}

std::string named(const ::testing::TestParamInfo<WanTokenizer::ParamType>& info) {
  return std::string(std::get<0>(info.param)) + c10::toString(std::get<1>(info.param));
}
const auto kDtypes = ::testing::Values(at::kDouble, at::kFloat);
INSTANTIATE_TEST_SUITE_P(Cases, WanTokenizer,
                         ::testing::Combine(::testing::ValuesIn(test::kWanCases), kDtypes), named);
INSTANTIATE_TEST_SUITE_P(Cases, WanTiled, ::testing::Combine(::testing::Values("plain", "residual"), kDtypes),
                         named);

// The blocks that a link sees: the first ones of a pass in order from 0, and again for every later latent
// frame.
struct Blocks final : Link<Tensor> {
  Blocks() : Link(KINORA_LEVEL_METER) { skip_inherited<Blocks>(); }
  Tensors block(const kinora_block& b, const Tensors& in) override {
    seen.push_back(b.index);
    return next.block(b, in);
  }
  std::vector<int64_t> seen;
};

TEST(WanBlocks, ComeInOrderForEachLatentFrame) {
  const WanCase c("residual");
  Blocks blocks;
  Wan wan(c.options, at::kDouble, {blocks.get()});
  wan.encode(c.video());
  wan.decode(c.code());
  std::vector<int64_t> expected;
  for (const auto& [from, to] : {std::pair(0, 5), std::pair(5, 10)})
    for (int64_t frame = 0; frame < 2; ++frame)
      for (int64_t i = from; i < to; ++i) expected.push_back(i);
  EXPECT_EQ(blocks.seen, expected);
}

TEST(WanTiles, InTimeEqualTheWholeButForTheirBeginnings) {
  // One convolution deep: it depends on 12 latent frames, less than a tile.
  const core::json small{{"base_dim", 4}, {"dim_mult", {1}},     {"temperal_downsample", core::json::array()},
                         {"z_dim", 2},    {"num_res_blocks", 1}, {"normalise", false}};
  core::json cut = small;
  cut.update({{"tile_frames", 30}, {"tile_stride_frames", 22}});
  Wan whole(small), tiled(cut);
  const int64_t span = whole.info().decode_span;
  ASSERT_LE(span, 22);
  const Tensor code = test::numbers("code", {1, 2, 53, 3, 4});
  const Tensor a = whole.decode(code), b = tiled.decode(code);
  ASSERT_EQ(a.sizes(), b.sizes());
  const auto differs = [&](int64_t first, int64_t last) {  // frames first..last
    return difference(b.narrow(2, first, last - first + 1), a.narrow(2, first, last - first + 1));
  };
  // The second tile begins with frame 22, which is not shown; it is blended into the last eight frames of
  // tile one.
  EXPECT_LT(differs(0, 23), 1e-12);
  EXPECT_GT(differs(24, 30), 1e-6);
  EXPECT_LT(differs(24, 21 + span), 0.5);
  EXPECT_LT(differs(22 + span, 44), 1e-12) << "as deep in its tile as the decoder sees back";
  const Tensor video = test::numbers("video", {1, 3, 53, 3, 4});
  EXPECT_LT(difference(tiled.encode(video).narrow(2, 0, 24), whole.encode(video).narrow(2, 0, 24)), 1e-12);
}

TEST(WanTiles, InTimeTakeMultiplesOfALatentFrame) {
  const WanCase c("plain");
  Wan whole(c.options), tiled(c.with({{"tile_frames", 8}, {"tile_stride_frames", 4}}));
  const Tensor video = c.video("long", 17), latent = whole.encode(video);
  EXPECT_EQ(tiled.encode(video).sizes(), latent.sizes());
  EXPECT_EQ(tiled.decode(latent).sizes(), video.sizes());
  EXPECT_LT(difference(tiled.encode(video).narrow(2, 0, 2), latent.narrow(2, 0, 2)), 1e-12);
  EXPECT_LT(difference(tiled.decode(latent).narrow(2, 0, 5), whole.decode(latent).narrow(2, 0, 5)), 1e-12);
}

// Reads the published file unmodified, including booleans.
TEST(WanOptions, TakePublishedValuesAndSayWhatTheyCompress) {
  const WanCase c("residual");
  Wan wan(c.options);
  const auto info = wan.info();
  EXPECT_EQ(info.channels, 4);
  EXPECT_EQ(info.time, 4);
  EXPECT_EQ(info.height, 16);
  EXPECT_EQ(info.width, 16);
  EXPECT_EQ(info.discrete, 0u);
  Wan clamped(c.with({{"clamp", true}}));
  EXPECT_TRUE(clamped.decode(c.code()).equal(wan.decode(c.code()).clamp(-1, 1)));
}

TEST(WanOptions, RefuseWhatDoesNotFit) {
  using test::refusal;
  using ::testing::HasSubstr;
  const WanCase c("plain");
  Wan wan(c.options);
  const auto encode = [&](std::vector<int64_t> shape) {
    return test::refusal([&] { wan.encode(test::numbers("video", shape)); });
  };
  EXPECT_THAT(encode({1, 3, 5, 16, 20}),
              HasSubstr("20 x 16 pixels; width and height must be multiples of 8"));
  EXPECT_THAT(encode({1, 3, 8, 16, 16}), HasSubstr("8 frames; 1 + n * 4 are needed"));
  EXPECT_THAT(encode({1, 4, 5, 16, 16}), HasSubstr("[B, 3, T, H, W]"));
  EXPECT_THAT(encode({1, 3, 0, 16, 16}), HasSubstr("give at least one frame"));
  EXPECT_THAT(test::refusal([&] {
                wan.decode(test::numbers("code", {1, 4, 2, 2, 2}));
              }),
              HasSubstr("a latent must be a floating-point tensor [B, 3, T, H, W]"));
  const auto make = [&](const core::json& o) { return test::refusal([&] { Wan refused(o); }); };
  EXPECT_THAT(make(c.with({{"latents_std", {1.0}}})), HasSubstr("latents_std 1 values for z_dim = 3"));
  EXPECT_THAT(make(c.with({{"dim_mult", {1, 2}}})), HasSubstr("2 levels of dim_mult need 1"));
  EXPECT_THAT(make({{"size", "2.2"}, {"z_dim", 32}}), HasSubstr("size = \"2.2\" sets z_dim"));
  EXPECT_THAT(make(c.with({{"tile_height", 20}, {"tile_width", 16}})), HasSubstr("multiples of 8"));
  EXPECT_THAT(make(c.with({{"tile_height", 16}})), HasSubstr("tile_height and tile_width go together"));
  EXPECT_THAT(make(c.with({{"tile_frames", 6}})), HasSubstr("multiples of 4"));
  EXPECT_THAT(make(c.with({{"tile_frames", 4}, {"tile_stride_frames", 8}})), HasSubstr("at most the tile"));
}

using Shapes = std::map<std::string, std::vector<int64_t>>;

class WanNames : public ::testing::TestWithParam<const char*> {
 protected:
  // original, diffusers: name -> shape; converted: diffusers' own name for each original one (2.1)
  core::json lists() { return test::Oracle("wan_vae.safetensors", "names").options[GetParam()]; }
};

TEST_P(WanNames, OfOriginalCheckpointsMapOneToOne) {
  const auto all = lists();
  const auto expected = all["diffusers"].get<Shapes>();
  Shapes mapped;
  for (const auto& [name, shape] : all["original"].get<Shapes>())
    EXPECT_TRUE(mapped.emplace(wan::diffusers_name(name), shape).second) << name << " maps to a name twice";
  EXPECT_EQ(mapped, expected);
  const core::json converted = all.value("converted", core::json::object());
  for (const auto& [name, to] : converted.items()) EXPECT_EQ(wan::diffusers_name(name), to);
  for (const auto& [name, shape] : expected)
    EXPECT_EQ(wan::diffusers_name(name), name) << "already diffusers'";
}

// Declared, never allocated.
TEST_P(WanNames, OfThePresetAreThePublishedOnes) {
  test::plugins();
  core::Chain chain(core::ChainOptions{}, {});
  const test::Instance<kinora_tokenizer> tokenizer("tokenizer/wan", {{"size", GetParam()}}, chain.head());
  Shapes declared;
  int64_t numel = 0;
  for (const auto& p : chain.parameters()) declared[p.name] = p.shape, numel += p.numel();
  EXPECT_EQ(declared, lists()["diffusers"].get<Shapes>());
  const bool small = std::string(GetParam()) == "2.1";
  EXPECT_EQ(declared.size(), small ? 194u : 196u);
  EXPECT_EQ(numel, small ? 126892531 : 704688668);
}

INSTANTIATE_TEST_SUITE_P(Published, WanNames, ::testing::Values("2.1", "2.2"),
                         [](const auto& info) { return info.param[2] == '1' ? "Wan21" : "Wan22"; });

TEST(WanName, OfAnythingElseStaysAsItIs) {
  for (const char* name : {"encoder.downsamples.x.weight", "decoder.upsamples.", "conv3.weight", ""})
    EXPECT_EQ(wan::diffusers_name(name), name);
}

}  // namespace

}  // namespace kinora
