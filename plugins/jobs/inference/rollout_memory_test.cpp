// Memory of long videos made chunk after chunk: the latents grow, and nothing else does.
#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "plugins/jobs/inference/rollout.hpp"
#include "plugins/jobs/inference/rollout_testing.hpp"
#include "tests/support/resident.hpp"

namespace kinora::core::inference {
namespace {

constexpr int64_t kMebi = int64_t{1} << 20;

// A cache without a window would grow by 4 KB a latent frame.
void expect_memory_of_latents_and_window(int64_t latents, bool makes_rest) {
  const at::NoGradGuard off;
  constexpr int64_t kWarm = 1'000, kEach = 20, kWindow = 2, kSink = 1;
  constexpr int64_t kHeads = 2, kWidth = 64, kLayers = 1;
  Small small(
      "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 1, heads = 2, "
      "head_size = 64, adaln_lora = 4 }",
      1, kShallow);
  small.makes_rest = makes_rest;
  int64_t chunks = 0, before = 0, most = 0;
  small.after_chunk = [&] {
    if (++chunks * kEach % kWarm != 0) return;
    const int64_t now = test::resident_in_use();
    ASSERT_GT(now, 0);
    if (before == 0) before = now;
    most = std::max<int64_t>(most, now);
  };
  const at::Tensor latent =
      small.made(in_chunks(kEach, kWindow, kSink), {.prompt = "red sea"}, latents, json::object());
  EXPECT_EQ(chunks, latents / kEach);
  EXPECT_EQ(latent.sizes(), (std::vector<int64_t>{1, 2, latents, 2, 4}));
  EXPECT_TRUE(latent.isfinite().all().item<bool>());
  const int64_t of_latents = latent.numel() * (8 + 4);  // float64, as this model reads them, and as decoded
  EXPECT_LT(most - before, of_latents + 3 * kMebi) << "after 1,000 latent frames: " << before;
  // Rows of a window and its sink, a quarter more and one (KeptRows); keys and values in float64.
  constexpr int64_t kArea = 2, kTokens = (kWindow + kSink) * kEach * kArea, kRows = kTokens + kTokens / 4 + 1;
  EXPECT_EQ(small.bytes - small.text_bytes, 2 * kLayers * kRows * kHeads * kWidth * 8);
}

// The slack is 350 bytes a latent frame.
TEST(LongVideo, TakesTheMemoryOfItsLatentsAndOfTheWindow) {
  if (!test::kCountsMemory) GTEST_SKIP() << "sanitizers keep freed memory";
  expect_memory_of_latents_and_window(10'000, true);
}

TEST(LongVideo, TakesThatMemoryIfItIsMadeChunkByChunk) {
  if (!test::kCountsMemory) GTEST_SKIP() << "sanitizers keep freed memory";
  expect_memory_of_latents_and_window(3'000, false);
}

// Keys and values in float64 for each token of the text, each layer and each prediction of guidance.
TEST(LongVideo, CountsTheTextsKeysAndValuesInTheCache) {
  const at::NoGradGuard off;
  constexpr int64_t kHeads = 2, kWidth = 64, kLayers = 1, kOfAToken = 2 * kLayers * kHeads * kWidth * 8;
  Small small(
      "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 1, heads = 2, "
      "head_size = 64, adaln_lora = 4 }",
      1, kShallow);
  const auto of = [&](const char* prompt, double scale) {
    Request request{.prompt = prompt};
    request.guidance[0].scale = request.guidance[1].scale = scale;
    small.made(in_chunks(1), request, 3, json::object());
    return small.text_bytes;
  };
  const int64_t of_one = of("red", 1), of_three = of("red sea blue", 1);
  EXPECT_EQ(of_three - of_one, 2 * kOfAToken) << "two more words";
  EXPECT_GE(of_one, kOfAToken);
  EXPECT_EQ(of("red", 3), 2 * of_one);
}

TEST(LongVideo, KeepsItsLatentsInTheTypeOfThePlan) {
  RolloutPlan plan{.frames = 6, .chunks = {2}, .mix = KINORA_MIX_RECTIFIED_FLOW, .keeps = true};
  plan.stored = at::kFloat;
  Rollout loop(plan, noise_by_frames({1, 1, 1}, 3, 0), std::nullopt);
  std::vector<at::Tensor> read;
  while (!loop.done())
    loop.next([](const Rollout::Piece& piece) { return piece.noise; },
              [&](int64_t, const FrameCondition& finished) { read.push_back(finished.clean().clone()); });
  const at::Tensor latent = loop.latent(), drawn = noise_by_frames({1, 1, 1}, 3, 0)(0, 6);
  EXPECT_TRUE(at::equal(latent, drawn.to(at::kFloat)));
  EXPECT_TRUE(at::equal(at::cat(read, 2), latent.narrow(2, 0, 4).to(at::kDouble)))
      << "the model reads what is kept, so that it reads the same after a rewind";
}

}  // namespace
}  // namespace kinora::core::inference
