// tokenizer/cosmos against diffusers' AutoencoderKLCosmos, and what must hold of a causal tokenizer.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/abi/tokenizer.h"
#include "kinora/link.hpp"
#include "plugins/tokenizers/cosmos/patch.hpp"
#include "tests/support/oracle.hpp"

namespace kinora {
namespace {

using at::Tensor;
constexpr const char* kFile = "cosmos_tokenizer.safetensors";

struct Cosmos : test::OnChain<kinora_tokenizer> {
  explicit Cosmos(const core::json& options = core::json::object(), at::ScalarType dtype = at::kDouble,
                  std::vector<const kinora_link*> links = {})
      : OnChain("tokenizer/cosmos", options, dtype, std::move(links)) {}
  Tensor encode(const Tensor& video) {
    kinora_tensor latent = nullptr, posterior = nullptr;
    check((*this)->encode(self(), context(), handle(video), &latent, &posterior));
    EXPECT_EQ(posterior, nullptr);
    return adopt<Tensor>(latent);
  }
  Tensor decode(const Tensor& latent) {
    kinora_tensor video = nullptr;
    check((*this)->decode(self(), context(), handle(latent), &video));
    return adopt<Tensor>(video);
  }
};

class Stream {
 public:
  Stream(Cosmos& of, bool decoding) : of_(of) { check(of->open(of.self(), of.context(), decoding, &self_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { of_->close(self_); }
  Tensor push(const Tensor& piece) {
    kinora_tensor out = nullptr;
    check(of_->push(self_, handle(piece), &out));
    return adopt<Tensor>(out);
  }

 private:
  Cosmos& of_;
  void* self_ = nullptr;
};

Tensor noise(std::vector<int64_t> shape, at::ScalarType dtype = at::kDouble) {
  at::manual_seed(7);
  return at::randn(shape, at::TensorOptions().dtype(dtype));
}

class CosmosTokenizer : public ::testing::TestWithParam<std::tuple<const char*, at::ScalarType>> {};

TEST_P(CosmosTokenizer, EqualsDiffusers) {
  const auto [name, dtype] = GetParam();
  const test::Oracle oracle(kFile, name);
  Cosmos cosmos(oracle.options, dtype);
  cosmos.load(oracle.under("weight."));
  EXPECT_LT(test::difference(cosmos.encode(oracle("video", dtype)), oracle.exact("latent")),
            test::bound_of(dtype));
  EXPECT_LT(test::difference(cosmos.decode(oracle("code", dtype)), oracle.exact("decoded")),
            test::bound_of(dtype));
}

// What a link sees: each block once a pass, numbered from 0, and each parameter under the block that reads it.
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
    cosmos.load(oracle.under("weight."));
    Tensor video = oracle("video", at::kDouble).requires_grad_();
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

// The number is the count of latent frames of each piece; five in all.
TEST_P(CosmosTokenizer, EncodesAndDecodesAStreamAsTheWhole) {
  const auto [name, dtype] = GetParam();
  const test::Oracle oracle(kFile, name);
  Cosmos cosmos(oracle.options, dtype);
  cosmos.load(oracle.under("weight."));
  const int64_t time = oracle.options["temporal_compression_ratio"];
  const Tensor one = oracle.exact("video"),
               video = noise({1, 3, 1 + 4 * time, one.size(3), one.size(4)}, dtype);
  const Tensor latent = cosmos.encode(video), decoded = cosmos.decode(latent);
  for (const auto& cut : {std::vector<int64_t>{1, 1, 1, 1, 1}, {2, 1, 2}, {1, 4}, {5}}) {
    Stream encoder(cosmos, false), decoder(cosmos, true);
    std::vector<Tensor> latents, videos;
    int64_t at = 0, frame = 0;
    for (const int64_t n : cut) {
      const int64_t frames = at ? n * time : 1 + (n - 1) * time;
      latents.push_back(encoder.push(video.narrow(2, frame, frames)));
      videos.push_back(decoder.push(latent.narrow(2, at, n)));
      at += n;
      frame += frames;
    }
    EXPECT_LT(test::difference(at::cat(latents, 2), latent), test::bound_of(dtype))
        << ::testing::PrintToString(cut);
    EXPECT_LT(test::difference(at::cat(videos, 2), decoded), test::bound_of(dtype))
        << ::testing::PrintToString(cut);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, CosmosTokenizer,
                         ::testing::Combine(::testing::Values("a", "b", "c"),
                                            ::testing::Values(at::kDouble, at::kFloat)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  c10::toString(std::get<1>(info.param));
                         });

TEST(CosmosPatches, OfTwoWaveletLevelsEqualDiffusers) {
  const test::Oracle oracle(kFile, "haar4");
  const Tensor video = oracle("video", at::kDouble);
  const Tensor padded = at::cat({video.narrow(2, 0, 1).expand({-1, -1, 3, -1, -1}), video}, 2);
  const cosmos::Patcher patcher(4, "haar");
  const Tensor patches = patcher.patch(padded);
  EXPECT_LT(test::difference(patches.permute({0, 4, 1, 2, 3}), oracle.exact("patches")), 1e-14);
  EXPECT_LT(test::difference(patcher.unpatch(patches), padded), 1e-14);
}

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
  kinora_tokenizer_info info{};
  check(cosmos->info(cosmos.self(), &info));
  EXPECT_EQ(info.channels, 8);
  EXPECT_EQ(info.time, 4);
  EXPECT_EQ(info.height, 8);
  EXPECT_EQ(info.width, 8);
  EXPECT_EQ(info.halo, -1);
  EXPECT_EQ(cosmos.encode(noise({2, 3, 9, 16, 24})).sizes(), (std::vector<int64_t>{2, 8, 3, 2, 3}));
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was refused";
}

TEST(CosmosDefaults, RefuseWhatDoesNotFit) {
  using ::testing::HasSubstr;
  Cosmos cosmos;
  const auto encode = [&](std::vector<int64_t> shape) {
    return refusal([&] { cosmos.encode(noise(shape)); });
  };
  EXPECT_THAT(encode({1, 3, 5, 16, 20}),
              HasSubstr("20 x 16 pixels; width and height must be multiples of 8"));
  EXPECT_THAT(encode({1, 3, 4, 16, 16}), HasSubstr("4 frames; 1 + n * 4 are needed"));
  EXPECT_THAT(encode({1, 4, 5, 16, 16}), HasSubstr("[B, 3, T, H, W]"));
  EXPECT_THAT(refusal([&] {
                cosmos.encode(noise({1, 3, 5, 16, 16}).to(at::kByte));
              }),
              HasSubstr("floating-point"));
  EXPECT_THAT(refusal([&] { cosmos.decode(noise({1, 3, 5, 2, 2})); }), HasSubstr("[B, 8, T, H, W]"));
  const auto make = [](const core::json& o) { return refusal([&] { Cosmos refused(o); }); };
  EXPECT_THAT(make({{"patch_size", 3}}), HasSubstr("patch_size = 3 is not a power of two"));
  EXPECT_THAT(make({{"patch_size", 16}}), HasSubstr("patch_size 16 already compresses more"));
  EXPECT_THAT(make({{"spatial_compression_ratio", 32}}),
              HasSubstr("encoder_block_out_channels has 3 entries"));
}

TEST(CosmosStream, StaysUsableAfterAPieceThatIsRefused) {
  Cosmos cosmos;
  const Tensor video = noise({1, 3, 9, 16, 16}), whole = cosmos.encode(video);
  Stream stream(cosmos, false);
  const Tensor first = stream.push(video.narrow(2, 0, 5));
  EXPECT_THAT(refusal([&] { stream.push(video.narrow(2, 5, 3)); }),
              ::testing::HasSubstr("in a stream's later pieces"));
  EXPECT_LT(test::difference(at::cat({first, stream.push(video.narrow(2, 5, 4))}, 2), whole), 1e-12);
}

}  // namespace
}  // namespace kinora
