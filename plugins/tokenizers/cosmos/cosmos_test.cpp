// Invariants of tokenizer/cosmos: it is causal, a stream equals the whole, blocks can run again, a deeper one
// fits.
#include <gmock/gmock.h>

#include "core/torch/weights/partial_init.hpp"
#include "kinora/link.hpp"
#include "plugins/tokenizers/cosmos/cosmos_testing.hpp"
#include "plugins/tokenizers/cosmos/layers.hpp"

namespace kinora::cosmos {
namespace {

constexpr const char* kFile = "cosmos_tokenizer.safetensors";
constexpr const char* kNvidia = "cosmos_tokenizer_nvidia.safetensors";

// The calls that a link sees: each block once per pass, numbered from 0, and each parameter within the block
// that reads it.
struct Blocks final : Link<Tensor> {
  Blocks() : Link(KINORA_LEVEL_METER) { skip_inherited<Blocks>(); }
  Tensors block(const kinora_block& b, const Tensors& in) override {
    seen.push_back(b.index);
    return next.block(b, in);
  }
  std::vector<int64_t> seen;
};

TEST(CosmosBlocks, RunAgainInTheBackwardGiveTheSameGradients) {
  const test::Oracle oracle(kFile, "a");
  const test::Recompute recompute;
  Blocks blocks;
  std::map<std::string, Tensor> plain;
  for (const auto& links : {std::vector<const kinora_link*>{}, {blocks.get(), recompute.get()}}) {
    Cosmos cosmos(oracle.options, at::kDouble, links);
    cosmos.fill();
    Tensor video = test::numbers("video", oracle.exact("grad.video").sizes()).requires_grad_();
    cosmos.decode(cosmos.encode(video)).square().sum().backward();
    const auto& parameters = cosmos.chain().parameters();
    const auto& leaves = cosmos.chain().leaves();
    for (size_t i = 0; i < leaves.size(); ++i) {
      const auto& name = parameters[i].name;
      ASSERT_TRUE(leaves[i].tensor.grad().defined()) << name;
      if (links.empty()) {
        plain[name] = leaves[i].tensor.grad().clone();
      } else {
        EXPECT_LT((leaves[i].tensor.grad() - plain.at(name)).abs().max().item<double>(),
                  1e-11 * (1 + plain.at(name).abs().max().item<double>()))
            << name;
      }
    }
    if (links.empty()) {
      plain["video"] = video.grad().clone();
    } else {
      EXPECT_LT(test::difference(video.grad(), plain["video"]), 1e-12);
    }
  }
  ASSERT_GT(blocks.seen.size(), 8u);
  std::sort(blocks.seen.begin(), blocks.seen.end());
  for (size_t i = 0; i < blocks.seen.size(); ++i) EXPECT_EQ(blocks.seen[i], static_cast<int64_t>(i));
}

class CosmosStream : public ::testing::TestWithParam<std::tuple<const char*, const char*, at::ScalarType>> {};

// The numbers of latent frames of the pieces, five in total.
TEST_P(CosmosStream, EncodesAndDecodesAsTheWhole) {
  const auto [file, name, dtype] = GetParam();
  const core::json options = test::Oracle(file, name).options;
  Cosmos cosmos(options, dtype);
  cosmos.fill();
  const kinora_tokenizer_info info = cosmos.info();
  const Tensor video = noise({1, 3, 1 + 4 * info.time, info.height, 2 * info.width}, dtype);
  Tensor vectors;
  const Tensor latent = cosmos.encode(video, info.discrete ? &vectors : nullptr),
               decoded = cosmos.decode(latent);
  const int64_t axis = info.discrete ? 1 : 2;
  for (const auto& cut : {std::vector<int64_t>{1, 1, 1, 1, 1}, {2, 1, 2}, {1, 4}, {5}}) {
    Stream encoder(cosmos, false), decoder(cosmos, true);
    std::vector<Tensor> latents, videos;
    int64_t at = 0, frame = 0;
    for (const int64_t n : cut) {
      const int64_t frames = at ? n * info.time : 1 + (n - 1) * info.time;
      latents.push_back(encoder.push(video.narrow(2, frame, frames)));
      videos.push_back(decoder.push(latent.narrow(axis, at, n)));
      at += n;
      frame += frames;
    }
    EXPECT_LT(test::difference(at::cat(latents, axis), latent), test::bound_of(dtype))
        << ::testing::PrintToString(cut);
    EXPECT_LT(test::difference(at::cat(videos, 2), decoded), test::bound_of(dtype))
        << ::testing::PrintToString(cut);
  }
}

std::string named(const ::testing::TestParamInfo<CosmosStream::ParamType>& info) {
  return std::string(std::get<1>(info.param)) + c10::toString(std::get<2>(info.param));
}
const auto kDtypes = ::testing::Values(at::kDouble, at::kFloat);
INSTANTIATE_TEST_SUITE_P(Diffusers, CosmosStream,
                         ::testing::Combine(::testing::Values(kFile),
                                            ::testing::Values("a", "b", "c", "d", "e", "f"), kDtypes),
                         named);
INSTANTIATE_TEST_SUITE_P(Nvidia, CosmosStream,
                         ::testing::Combine(::testing::Values(kNvidia), ::testing::Values("dv", "dv2"),
                                            kDtypes),
                         named);

TEST(CosmosDefaults, SeeNoLaterFrame) {
  Cosmos cosmos;
  cosmos.randomise();
  Tensor video = noise({1, 3, 9, 16, 16}).requires_grad_();
  cosmos.encode(video).narrow(2, 0, 2).sum().backward();
  EXPECT_GT(video.grad().narrow(2, 4, 1).abs().sum().item<double>(), 0);
  EXPECT_EQ(video.grad().narrow(2, 5, 4).abs().sum().item<double>(), 0);
  Tensor latent = noise({1, 8, 3, 2, 2}).requires_grad_();
  const Tensor decoded = cosmos.decode(latent);
  EXPECT_EQ(decoded.sizes(), (std::vector<int64_t>{1, 3, 9, 16, 16}));
  decoded.narrow(2, 0, 5).sum().backward();
  EXPECT_GT(latent.grad().narrow(2, 1, 1).abs().sum().item<double>(), 0);
  EXPECT_EQ(latent.grad().narrow(2, 2, 1).abs().sum().item<double>(), 0);
}

TEST(CosmosDefaults, GiveEveryParameterAGradient) {
  Cosmos cosmos;
  cosmos.randomise();
  const Tensor video = noise({1, 3, 5, 16, 16});
  (cosmos.decode(cosmos.encode(video)) - video).square().sum().backward();
  for (const auto& leaf : cosmos.chain().leaves()) {
    ASSERT_TRUE(leaf.tensor.grad().defined()) << leaf.name;
    EXPECT_GT(leaf.tensor.grad().abs().sum().item<double>(), 0) << leaf.name;
  }
}

TEST(CosmosDefaults, SayWhatTheyCompress) {
  Cosmos cosmos;
  const kinora_tokenizer_info info = cosmos.info();
  EXPECT_EQ(info.channels, 8);
  EXPECT_EQ(info.time, 4);
  EXPECT_EQ(info.height, 8);
  EXPECT_EQ(info.width, 8);
  EXPECT_EQ(info.decode_span, 0);
  EXPECT_EQ(cosmos.encode(noise({2, 3, 9, 16, 24})).sizes(), (std::vector<int64_t>{2, 8, 3, 2, 3}));
}

// Every frame is processed on its own, so any split equals the whole.
TEST(CosmosImages, AreFramesOfAStream) {
  for (const char* name : {"ci", "di"})
    for (const auto dtype : {at::kDouble, at::kFloat}) {
      Cosmos cosmos(test::Oracle(kNvidia, name).options, dtype);
      cosmos.fill();
      const kinora_tokenizer_info info = cosmos.info();
      EXPECT_EQ(info.decode_span, 1);
      const Tensor video = noise({1, 3, 3, 32, 32}, dtype);
      Tensor vectors;
      const Tensor latent = cosmos.encode(video, info.discrete ? &vectors : nullptr),
                   decoded = cosmos.decode(latent);
      const int64_t axis = info.discrete ? 1 : 2;
      Stream encoder(cosmos, false), decoder(cosmos, true);
      for (const auto& [at, n] : std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {1, 2}}) {
        EXPECT_LT(test::difference(encoder.push(video.narrow(2, at, n)), latent.narrow(axis, at, n)),
                  test::bound_of(dtype))
            << name << dtype;
        EXPECT_LT(test::difference(decoder.push(latent.narrow(axis, at, n)), decoded.narrow(2, at, n)),
                  test::bound_of(dtype))
            << name << dtype;
      }
    }
}

// A small group of numbers far from zero has a small variance, which E[x^2] - E[x]^2 would lose.
TEST(CosmosImages, AreNormalisedFarFromZero) {
  core::Chain chain({.dtype = at::kDouble}, {});
  const Ctx ctx(chain.head());
  const FrameNorm norm({ctx, /*image=*/true}, "norm", 32);
  chain.ready();
  const Tensor x = noise({1, 2, 4, 5, 32}) * 1e-3, y = norm(Pass{ctx}, x), far = norm(Pass{ctx}, x + 100);
  const Tensor mean = x.mean({2, 3}, true), variance = (x - mean).square().mean({2, 3}, true);
  EXPECT_LT(test::difference(y, (x - mean) / (variance + 1e-6).sqrt()), 1e-12);
  EXPECT_LT(test::difference(far, y), 1e-10);  // x + 100 itself is rounded by 1e-14 of 1e-3
}

// arXiv 2501.03575's tokenizers are extended to more compression by another block; everything else is kept.
TEST(CosmosDefaults, WithOneMoreBlockCompressTwiceAndKeepEveryNumber) {
  Cosmos from;
  from.randomise();
  const auto weights = core::assemble(from.chain().parameters(), from.chain().leaves());
  const core::json deeper = {{"encoder_block_out_channels", {32, 64, 64, 64}},
                             {"decode_block_out_channels", {32, 64, 64, 64}},
                             {"spatial_compression_ratio", 16},
                             {"temporal_compression_ratio", 8}};
  Cosmos to(deeper);
  // The decoder's blocks are numbered from the deepest.
  const auto report = core::load_partially(to.chain().parameters(), to.chain().leaves(), weights,
                                           {.name_in_file = core::shifted("decoder.up_blocks.", -1)});
  EXPECT_EQ(report.count(core::PartialRow::taken), weights.size());
  EXPECT_EQ(report.count(core::PartialRow::resized), 0u);
  EXPECT_EQ(report.count(core::PartialRow::unused), 0u);
  for (const auto& row : report.rows)
    if (row.fate == core::PartialRow::fresh) {
      EXPECT_THAT(row.name,
                  ::testing::ContainsRegex("down_blocks.2|downsamplers.0|up_blocks.0|upsamplers.0"));
    }
  EXPECT_EQ(from.info().time * 2, to.info().time);
  EXPECT_EQ(from.info().height * 2, to.info().height);
  const Tensor latent = to.encode(noise({1, 3, 17, 32, 48}));
  EXPECT_EQ(latent.sizes(), (std::vector<int64_t>{1, 8, 3, 2, 3}));
  EXPECT_EQ(to.decode(latent).sizes(), (std::vector<int64_t>{1, 3, 17, 32, 48}));
}

// Published latents have a mean and a deviation for each channel in each latent frame, also in a stream.
TEST(CosmosScale, IsOfEachChannelInEachLatentFrame) {
  const int64_t C = 3, frames = 3;
  core::json options = {{"latent_channels", C},
                        {"encoder_block_out_channels", {4, 4, 4}},
                        {"decode_block_out_channels", {4, 4, 4}}};
  Cosmos plain(options);
  for (const bool by_frame : {true, false}) {
    const int64_t n = by_frame ? frames : 1;
    const Tensor mean = test::numbers("mean", {1, C, n, 1, 1}),
                 std = test::numbers("std", {1, C, n, 1, 1}).abs() + 0.5;
    const auto list = [](const Tensor& t) {
      return std::vector<double>(t.data_ptr<double>(), t.data_ptr<double>() + t.numel());
    };
    options["latents_mean"] = list(mean), options["latents_std"] = list(std);
    Cosmos scaled(options);
    plain.fill(), scaled.fill();
    const Tensor video = test::numbers("video", {2, 3, 9, 16, 16});
    const Tensor z = plain.encode(video), latent = scaled.encode(video);
    EXPECT_LT(test::difference(latent, (z - mean) / std), 1e-14);
    EXPECT_LT(test::difference(scaled.decode(latent), plain.decode(z)), 1e-12);
    Stream encoder(scaled, false), decoder(scaled, true);
    const Tensor first = encoder.push(video.narrow(2, 0, 5)), second = encoder.push(video.narrow(2, 5, 4));
    EXPECT_LT(test::difference(at::cat({first, second}, 2), latent), 1e-12);
    const Tensor begun = decoder.push(latent.narrow(2, 0, 1)), rest = decoder.push(latent.narrow(2, 1, 2));
    EXPECT_LT(test::difference(at::cat({begun, rest}, 2), plain.decode(z)), 1e-12);
    if (!by_frame) continue;
    EXPECT_THAT(test::refusal([&] {
                  scaled.encode(test::numbers("long", {1, 3, 13, 16, 16}));
                }),
                ::testing::HasSubstr("are of 3 latent frames, these are 4"));
  }
  options["latents_std"] = {1.0, 2.0};
  EXPECT_THAT(test::refusal([&] { Cosmos wrong(options); }),
              ::testing::HasSubstr("and latents_std 2 numbers"));
}

TEST(CosmosDefaults, RefuseWhatDoesNotFit) {
  using ::testing::HasSubstr;
  Cosmos cosmos;
  const auto encode = [&](std::vector<int64_t> shape) {
    return test::refusal([&] { cosmos.encode(noise(shape)); });
  };
  EXPECT_THAT(encode({1, 3, 5, 16, 20}),
              HasSubstr("20 x 16 pixels; width and height must be multiples of 8"));
  EXPECT_THAT(encode({1, 3, 4, 16, 16}), HasSubstr("4 frames; 1 + n * 4 are needed"));
  EXPECT_THAT(encode({1, 4, 5, 16, 16}), HasSubstr("[B, 3, T, H, W]"));
  EXPECT_THAT(encode({0, 3, 5, 16, 16}), HasSubstr("that is not empty"));
  EXPECT_THAT(test::refusal([&] {
                cosmos.encode(noise({1, 3, 5, 16, 16}).to(at::kByte));
              }),
              HasSubstr("floating-point"));
  EXPECT_THAT(test::refusal([&] { cosmos.decode(noise({1, 3, 5, 2, 2})); }), HasSubstr("[B, 8, T, H, W]"));
  const auto make = [](const core::json& o) { return test::refusal([&] { Cosmos refused(o); }); };
  EXPECT_THAT(make({{"patch_size", 3}}), HasSubstr("patch_size = 3 is not a power of two"));
  EXPECT_THAT(make({{"patch_size", 16}}), HasSubstr("patch_size 16 already compresses more"));
  EXPECT_THAT(make({{"spatial_compression_ratio", 32}}),
              HasSubstr("encoder_block_out_channels has 3 entries"));
}

TEST(CosmosDefaults, StreamStaysUsableAfterAPieceThatIsRefused) {
  Cosmos cosmos;
  const Tensor video = noise({1, 3, 9, 16, 16}), whole = cosmos.encode(video);
  Stream stream(cosmos, false);
  const Tensor first = stream.push(video.narrow(2, 0, 5));
  EXPECT_THAT(test::refusal([&] { stream.push(video.narrow(2, 5, 3)); }),
              ::testing::HasSubstr("in a stream's later pieces"));
  EXPECT_LT(test::difference(at::cat({first, stream.push(video.narrow(2, 5, 4))}, 2), whole), 1e-12);
}

TEST(CosmosCodes, AreRefusedWhereTheyDoNotFit) {
  using ::testing::HasSubstr;
  Cosmos cosmos(core::json{{"formulation", "FSQ"}});
  EXPECT_EQ(cosmos.info().codes, 64000);
  EXPECT_THAT(test::refusal([&] {
                cosmos.decode(at::full({1, 1, 2, 2}, 64000, at::kInt));
              }),
              HasSubstr("[0, 64000)"));
  EXPECT_THAT(test::refusal([&] {
                cosmos.decode(at::zeros({1, 1, 1, 2, 2}, at::kInt));
              }),
              HasSubstr("[B, t, h, w]"));
  EXPECT_THAT(test::refusal([&] { cosmos.decode(noise({1, 8, 1, 2, 2})); }), HasSubstr("[B, 6, T, H, W]"));
  EXPECT_THAT(test::refusal([] {
                Cosmos refused(core::json{{"formulation", "FSQ"}, {"levels", {8, 8}}});
              }),
              HasSubstr("embedding_dim = 6, but 2 levels"));
  EXPECT_THAT(test::refusal([] {
                Cosmos refused(core::json{{"image", true}, {"encoder_block_out_channels", {8, 8}}});
              }),
              HasSubstr("multiples of 32"));
}

}  // namespace
}  // namespace kinora::cosmos
