// Encodes and decodes a rank's span of a video from only the frames that it depends on.
#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "core/torch/media/streaming.hpp"
#include "kinora/link.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/rank_strategies.hpp"
#include "tests/support/run_file.hpp"

namespace kinora {
namespace {

using at::Tensor;

// Counts how often a parameter is read: once per latent frame, for a layer that every frame passes once.
class Reads final : public Link<Tensor> {
 public:
  explicit Reads(std::string name) : Link(KINORA_LEVEL_METER), name_(std::move(name)) {
    skip_inherited<Reads>();
  }
  kinora_param parameter(const kinora_param_spec& spec) override {
    const kinora_param made = next.parameter(spec);
    if (spec.name == name_) counted_ = made;
    return made;
  }
  Tensor value(kinora_param p) override {
    number_ += p == counted_;
    return next.value(p);
  }
  int64_t take() { return std::exchange(number_, 0); }

 private:
  std::string name_;
  kinora_param counted_ = 0;
  int64_t number_ = 0;
};

std::unique_ptr<core::Tokenizer> tokenizer(const std::string& id, const core::json& options,
                                           const std::vector<const kinora_link*>& links = {}) {
  static std::vector<std::unique_ptr<core::Options>> kept;  // options must outlive the network
  const auto component = core::or_throw(test::runtime().registry().open(id));
  kept.push_back(
      std::make_unique<core::Options>(core::or_throw(core::Options::make(*component.spec, options))));
  core::ChainOptions chain;
  chain.dtype = at::kDouble;
  auto made = std::make_unique<core::Tokenizer>(component, *kept.back(), chain, links);
  for (auto& leaf : made->chain().leaves())
    leaf.tensor.detach().copy_(test::numbers(leaf.name, leaf.tensor.sizes()).mul(0.5));
  return made;
}

const core::json kWan = {
    {"base_dim", 4}, {"z_dim", 2}, {"dim_mult", {1, 1, 1}}, {"num_res_blocks", 1}, {"normalise", false}};
// Time is halved between the first two levels, the last two, or both.
std::unique_ptr<core::Tokenizer> wan(const std::vector<int>& halves,
                                     const std::vector<const kinora_link*>& links = {}) {
  core::json options = kWan;
  options["temperal_downsample"] = halves;
  return tokenizer("tokenizer/wan", options, links);
}

// Encodes spans of a video on P ranks and returns the number of frames that each rank read.
std::vector<int64_t> encoded_by(int64_t P, core::Tokenizer& net, const Tensor& video, const Tensor& whole) {
  std::vector<int64_t> looked;
  const int64_t n = whole.size(2), frames = video.size(2);
  for (int64_t r = 0; r < P; ++r) {
    const int64_t first = n * r / P, count = n * (r + 1) / P - first;
    int64_t seen = 0;
    const Tensor part = core::encode_part(net, frames, first, count, [&](int64_t at, int64_t k) {
      seen += k;
      return video.narrow(2, at, k);
    });
    EXPECT_TRUE(part.equal(whole.narrow(2, first, count))) << "rank " << r << " of " << P;
    looked.push_back(seen);
  }
  return looked;
}

TEST(LocalEncoding, IsTheWholeBitForBitFromItsOwnFramesAndAHalo) {
  const at::NoGradGuard off;
  for (const auto& halves : std::vector<std::vector<int>>{{1, 1}, {0, 1}, {1, 0}}) {
    const auto net = wan(halves);
    const auto info = net->info();
    const int64_t n = 2 * info.encode_span + 5;
    const Tensor video = test::numbers("film", {1, 3, 1 + (n - 1) * info.time, 8, 8}).mul(0.5),
                 whole = net->encode(video);
    for (const int64_t P : {2, 3, 4}) {
      const auto looked = encoded_by(P, *net, video, whole);
      for (const int64_t frames : looked)
        EXPECT_LE(frames, (n / P + 1 + info.encode_span) * info.time + 1) << "O(F / P + span)";
      EXPECT_LT(looked[0], video.size(2));
    }
  }
}

// Cosmos' encoder attends to every earlier frame.
TEST(LocalEncoding, LooksAtEveryFrameBeforeWhereTheTokenizerDoes) {
  const at::NoGradGuard off;
  const auto net = tokenizer("tokenizer/cosmos", {{"latent_channels", 2},
                                                  {"encoder_block_out_channels", {4, 8, 8}},
                                                  {"decode_block_out_channels", {4, 8, 8}}});
  const int64_t time = net->info().time, n = 5;
  const Tensor video = test::numbers("film", {1, 3, 1 + (n - 1) * time, 16, 32}).mul(0.5),
               whole = net->encode(video);
  const Tensor part = core::encode_part(*net, video.size(2), 3, 2,
                                        [&](int64_t at, int64_t k) { return video.narrow(2, at, k); });
  EXPECT_LT((part - whole.narrow(2, 3, 2)).abs().max().item<double>() / whole.abs().max().item<double>(),
            1e-12);
}

TEST(LocalEncoding, SpanIsHowFarAnEncodedFrameSeesBack) {
  for (const auto& halves : std::vector<std::vector<int>>{{1, 1}, {0, 1}, {1, 0}}) {
    const auto net = wan(halves);
    const auto info = net->info();
    const int64_t last = info.encode_span + 3;
    Tensor video = test::numbers("film", {1, 3, 1 + last * info.time, 4, 4}).requires_grad_();
    net->encode(video).select(2, last).sum().backward();
    const Tensor reached = video.grad().abs().amax({0, 1, 3, 4});
    const auto of_latent = [&](int64_t i) {
      return reached.narrow(0, 1 + (i - 1) * info.time, info.time).max().item<double>();
    };
    EXPECT_GT(of_latent(last - info.encode_span + 1), 0) << "the last that its span has";
    EXPECT_EQ(of_latent(last - info.encode_span), 0) << "and the first that it has not";
  }
}

TEST(LocalDecoding, IsTheWholeBitForBit) {
  const at::NoGradGuard off;
  for (const auto& halves : std::vector<std::vector<int>>{{1, 1}, {0, 1}}) {
    const auto net = wan(halves);
    const int64_t n = net->info().decode_span + 8;
    const Tensor latent = test::numbers("code", {1, 2, n, 2, 2}),
                 whole = core::decode_frames(*net, latent, at::kCPU);
    EXPECT_GT(whole.to(at::kDouble).std().item<double>(), 1);
    for (int64_t first = 0; first < n; ++first) {
      const Tensor part = core::decode_part(*net, latent, at::kCPU, first, 1);
      const int64_t at = first == 0 ? 0 : 1 + (first - 1) * net->info().time;
      EXPECT_TRUE(part.equal(whole.narrow(0, at, part.size(0)))) << "latent frame " << first;
      EXPECT_EQ(part.size(0), first == 0 ? 1 : net->info().time);
    }
  }
}

TEST(LocalDecoding, EachRankDecodesItsStretchAndTheHaloBeforeIt) {
  test::on_ranks(3, [](const test::Rank& me) {
    const at::NoGradGuard off;
    const test::RankGroups world(me, "['balanced-sp']");
    Reads decoded("decoder.conv_in.weight");
    const auto net = wan({1, 1}, {decoded.get()});
    const int64_t span = net->info().decode_span, n = me.size * (span + 2) + 2;
    const Tensor latent = test::numbers("code", {1, 2, n, 2, 2}),
                 whole = core::decode_frames(*net, latent, at::kCPU);
    ASSERT_EQ(decoded.take(), n);
    const Tensor made = core::decode_together(*net, latent, at::kCPU, *world.group("cp").get());
    const int64_t first = n * me.rank / me.size, own = n * (me.rank + 1) / me.size - first;
    EXPECT_EQ(decoded.take(), own + std::min(first, span)) << "rank " << me.rank;
    EXPECT_EQ(made.defined(), me.rank == 0);
    if (made.defined()) {
      EXPECT_TRUE(made.equal(whole));
    }
  });
}

}  // namespace
}  // namespace kinora
