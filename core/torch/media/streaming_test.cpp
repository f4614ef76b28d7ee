// Long videos through a tokenizer: results equal those of the whole, and memory does not grow with the
// length.
#include "core/torch/media/streaming.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "tests/support/metered.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core {
namespace {

constexpr int64_t kH = 16, kW = 24;

std::unique_ptr<Tokenizer> tokenizer(const std::string& id, const json& options) {
  static std::vector<std::unique_ptr<Options>> kept;  // must outlive the network
  const auto component = or_throw(test::runtime().registry().open(id));
  kept.push_back(std::make_unique<Options>(or_throw(Options::make(*component.spec, options))));
  auto made = std::make_unique<Tokenizer>(component, *kept.back(), ChainOptions{});
  for (auto& leaf : made->chain().leaves())
    leaf.tensor.detach().copy_(test::numbers(leaf.name, leaf.tensor.sizes()).mul(0.3));
  return made;
}
std::unique_ptr<Tokenizer> wan(const json& more = json::object()) {
  json options = {{"base_dim", 4},
                  {"z_dim", 2},
                  {"dim_mult", {1, 1, 1, 1}},
                  {"num_res_blocks", 1},
                  {"latents_mean", {0.3, -0.2}},
                  {"latents_std", {1.5, 0.5}}};
  options.update(more);
  return tokenizer("tokenizer/wan", options);
}

at::Tensor random_video(int64_t frames) {
  return test::numbers("film", {1, 3, frames, kH, kW}).to(at::kFloat).mul(0.5);
}

TEST(Streaming, IsTheWholeBitForBit) {
  const at::NoGradGuard off;
  const auto net = wan();
  const at::Tensor video = random_video(13), whole = net->encode(video);
  const at::Tensor latent =
      encode_video(*net, 13, [&](int64_t first, int64_t n) { return video.narrow(2, first, n); });
  EXPECT_TRUE(at::equal(latent, whole));
  EXPECT_TRUE(at::equal(decode_frames(*net, latent, at::kCPU), frames_of(net->decode(latent))));
  EXPECT_GT(latent.std().item<double>(), 1e-3);
}

// Cosmos' decoder attends to every earlier frame; tiles in time are for whole clips.
TEST(Streaming, TakesTheWholeWhereAStreamWouldNotHelp) {
  const at::NoGradGuard off;
  const auto cosmos = tokenizer("tokenizer/cosmos", {{"latent_channels", 2},
                                                     {"encoder_block_out_channels", {4, 8, 8}},
                                                     {"decode_block_out_channels", {4, 8, 8}}});
  EXPECT_EQ(cosmos->open_stream(true), nullptr);
  const auto tiled = wan({{"tile_frames", 8}});
  EXPECT_EQ(tiled->open_stream(false), nullptr);
  const at::Tensor video = random_video(17);
  EXPECT_TRUE(
      at::equal(encode_video(*tiled, 17, [&](int64_t first, int64_t n) { return video.narrow(2, first, n); }),
                tiled->encode(video)));
}

// Peak memory during f, without its result.
template <class F>
int64_t extra(F f) {
  test::Metered::begin();
  const at::Tensor result = f();
  return test::Metered::most() - static_cast<int64_t>(result.nbytes());
}

// Only the result grows: 3 bytes a pixel, or the latent, twice for a moment while its pieces are joined.
TEST(Streaming, NeedsMemoryThatDoesNotGrowWithTheLength) {
  const at::NoGradGuard off;
  const auto net = wan();
  const auto frames_at = [](int64_t, int64_t n) { return at::zeros({1, 3, n, kH, kW}); };
  const auto encoding = [&](int64_t latents) {
    return extra([&] { return encode_video(*net, 1 + 4 * (latents - 1), frames_at); }) -
           2 * latents * (kH / 8) * (kW / 8) * 4;
  };
  const auto decoding = [&](int64_t latents) {
    const at::Tensor latent = test::numbers("code", {1, 2, latents, kH / 8, kW / 8}).to(at::kFloat);
    return extra([&] { return decode_frames(*net, latent, at::kCPU); });
  };
  const auto whole = [&](int64_t latents) {
    const at::Tensor latent = test::numbers("code", {1, 2, latents, kH / 8, kW / 8}).to(at::kFloat);
    return extra([&] { return frames_of(net->decode(latent)); });
  };
  const int64_t short_in = encoding(5), long_in = encoding(60), short_out = decoding(5),
                long_out = decoding(60);
  std::printf(
      "          without the result, 5 and 60 latent frames: encoding %ld and %ld bytes, decoding %ld and "
      "%ld, "
      "as a whole %ld and %ld\n",
      short_in, long_in, short_out, long_out, whole(5), whole(60));
  EXPECT_GT(short_out, 0);
  EXPECT_LE(long_in, short_in + 60 * 64) << "64 bytes per allocator block";
  EXPECT_LE(long_out, short_out);
  EXPECT_GT(whole(60), 4 * long_out);
}

}  // namespace
}  // namespace kinora::core
