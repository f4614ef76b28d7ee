// Videos made chunk by chunk: on a cache of keys and values as by masked attention over all frames.
#include "plugins/jobs/inference/rollout.hpp"

#include <random>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/open.hpp"
#include "plugins/jobs/inference/rollout_testing.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/worst.hpp"

namespace kinora::core::inference {
namespace {

class Cached : public testing::TestWithParam<const char*> {};

TEST_P(Cached, IsMaskedAttentionOverAllFrames) {
  const at::NoGradGuard off;
  std::mt19937 random(7);
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int64_t steps : {1, 2, 4}) {
    Small small(GetParam(), steps);
    for (int64_t round = 0; round < rounds(6); ++round) {
      const int64_t window = draw(0, 3);
      FrameOptions rule = in_chunks(draw(1, 4), window, window > 0 ? draw(0, 2) : 0);
      rule.first_chunk = draw(0, 4);
      Request request{.number = draw(0, 5), .seed = 5, .prompt = "red sea", .negative = "blue"};
      Guidance& guidance = request.guidance[0];
      guidance.scale = std::array{1.0, 0.0, 2.5}[static_cast<size_t>(draw(0, 2))];
      guidance.batched = draw(0, 1) == 1;
      if (draw(0, 2) == 0) guidance.from = 0.3, guidance.to = 2;
      const int64_t frames = draw(1, 9), more = draw(-2, 3);
      const json cache = more < 0 ? json::object() : with_room(rule, frames, more);
      const at::Tensor want = small.made(rule, request, frames, nullptr);
      const at::Tensor got = small.made(rule, request, frames, cache);
      ASSERT_LT(apart(got, want), 1e-12)
          << cache << ", " << frames << " frames in chunks of " << rule.chunk << ", the first of "
          << rule.first_chunk << ", window " << rule.window << ", sink " << rule.sink << ", guidance "
          << guidance.scale << (guidance.batched ? " batched" : "") << " from " << guidance.from;
    }
  }
}

std::string name_of(const testing::TestParamInfo<const char*>& info) {
  return std::vector<std::string>{"Dit", "DeepDit", "Stdit", "Wan"}.at(info.index);
}
INSTANTIATE_TEST_SUITE_P(Of, Cached, testing::Values(kDit, kDeepDit, kStdit, kWan), name_of);

TEST(CachedRollout, KeepsTheTokensOfTheWindowAndTheSinkAlone) {
  const at::NoGradGuard off;
  Small small(kDeepDit);
  small.made(in_chunks(2, 2, 1), {.prompt = "red sea"}, 15, json::object());
  const int64_t area = 2;  // tokens of a frame
  EXPECT_EQ(small.kept, 6 * area) << "a sink of one chunk, and two chunks: the last one is not read";
  small.made(in_chunks(2), {.prompt = "red sea"}, 15, {{"capacity", 5}, {"sink", 1}});
  EXPECT_EQ(small.kept, 5 * area);
  small.made(in_chunks(2, 2, 1), {.prompt = "red sea"}, 15, {{"capacity", 8}});
  EXPECT_EQ(small.kept, 8 * area) << "more than the rule lets a chunk see";
  FrameOptions rule = in_chunks(2, 2, 1);
  rule.first_chunk = 1;
  small.made(rule, {.prompt = "red sea"}, 15, json::object());
  EXPECT_EQ(small.kept, 5 * area) << "a sink of one frame, and two chunks";
  rule.first_chunk = 3, rule.sink = 0;
  small.made(rule, {.prompt = "red sea"}, 15, json::object());
  EXPECT_EQ(small.kept, 5 * area) << "the most that a chunk sees, the second one";
}

// The fresh noise of a step is that of the chunk's own frames.
TEST(CachedRollout, DrawsTheNoiseOfStepsAsMaskedAttentionOverAllFrames) {
  const at::NoGradGuard off;
  test::runtime();
  offer_tensors(torch_tensors());  // as a program does: the sampler draws noise
  struct Case {
    const char *model, *sampler;
    json options;
  };
  for (const auto& c : {Case{kWan, "flow-renoise", json::object()},
                        {kDeepDit, "edm-heun", {{"steps", 3}, {"s_churn", 4.0}}},
                        {kDeepDit, "res", {{"steps", 3}, {"s_churn", 4.0}}}}) {
    Small small(c.model);
    small.sampler = small.component("sampler", c.sampler, c.options);
    for (const auto& [chunk, first, given] : {std::tuple{1, 0, 0}, {2, 1, 0}, {3, 0, 5}}) {
      FrameOptions rule = in_chunks(chunk);
      rule.first_chunk = first;
      Request request{.seed = 5, .prompt = "red sea"};
      if (given > 0) request.video = std::string(KINORA_TEST_DATA) + "/bbb_A.mp4";
      request.condition_frames = given;
      const at::Tensor want = small.made(rule, request, 6, nullptr), got = small.made(rule, request, 6);
      EXPECT_LT(apart(got, want), 1e-12)
          << c.sampler << ", chunks of " << chunk << ", " << given << " given frames";
    }
  }
}

TEST(Rollout, DrawsTheNoiseOfAFrameByItsNumber) {
  const NoiseOf noise = noise_by_frames({2, 3, 4}, 9, 1);
  const at::Tensor all = noise(0, 7);
  EXPECT_EQ(all.sizes(), (std::vector<int64_t>{1, 2, 7, 3, 4}));
  for (int64_t f = 0; f < 7; ++f) EXPECT_TRUE(at::equal(noise(f, 1), all.narrow(2, f, 1)));
  for (const NoiseOf& other : {noise_by_frames({2, 3, 4}, 9, 2), noise_by_frames({2, 3, 4}, 8, 1)})
    EXPECT_FALSE(at::equal(other(0, 1), noise(0, 1)));
}

// A network whose result is the sum of the frames that it has read and of those that it makes.
struct Summed {
  RolloutPlan plan{.frames = 7, .chunks = {3}, .mix = KINORA_MIX_RECTIFIED_FLOW, .keeps = true};
  NoiseOf noise = noise_by_frames({1, 1, 1}, 3, 0);
  std::optional<FrameCondition> given;
  std::vector<int64_t> read;
  at::Tensor sum = at::zeros({}, at::kDouble);
  Rollout loop() const { return {plan, noise, given}; }
  void next(Rollout& loop) {
    loop.next([&](const Rollout::Piece& piece) { return piece.noise + sum; },
              [&](int64_t first, const FrameCondition& finished) {
                read.push_back(first);
                sum = sum + finished.clean().sum();
              });
  }
};

TEST(Rollout, ReadsEachFinishedChunkOnceAndInOrder) {
  Summed network;
  Rollout loop = network.loop();
  EXPECT_EQ(loop.chunks_left(), 3);
  while (!loop.done()) network.next(loop);
  EXPECT_THAT(network.read, testing::ElementsAre(0, 3));
  EXPECT_EQ(loop.latent().size(2), 7);
  EXPECT_TRUE(at::equal(loop.latent(3), loop.latent().narrow(2, 3, 4)));
}

TEST(Rollout, ReadsGivenChunksAndCompletesTheOneInWhichTheyEnd) {
  Summed network;
  const at::Tensor clean = at::arange(4, at::kDouble).view({1, 1, 4, 1, 1});
  network.given.emplace(clean, KINORA_MIX_RECTIFIED_FLOW, 0);
  Rollout loop = network.loop();
  network.next(loop);
  EXPECT_THAT(network.read, testing::ElementsAre(0));
  EXPECT_EQ(loop.finished(), 6);
  EXPECT_TRUE(at::equal(loop.latent().narrow(2, 0, 4), clean));
}

TEST(Rollout, BeginsWithAChunkOfAnotherLength) {
  for (const auto& [first, begins] : {std::pair{1, std::vector<int64_t>{0, 1, 4}}, {4, {0, 4}}, {7, {0}}}) {
    Summed network;
    network.plan.chunks.first = first;
    Rollout loop = network.loop();
    std::vector<int64_t> made;
    EXPECT_EQ(loop.chunks_left(), static_cast<int64_t>(begins.size())) << first;
    for (; !loop.done(); network.next(loop)) made.push_back(loop.finished());
    EXPECT_EQ(made, begins) << first;
    EXPECT_EQ(network.read, std::vector<int64_t>(begins.begin(), begins.end() - 1)) << first;
  }
  Summed given;  // a picture is the whole first chunk
  given.plan.chunks.first = 1;
  given.given.emplace(at::ones({1, 1, 1, 1, 1}, at::kDouble), KINORA_MIX_RECTIFIED_FLOW, 0);
  Rollout loop = given.loop();
  EXPECT_EQ(loop.next_chunk(), 1);
  given.next(loop);
  EXPECT_THAT(given.read, testing::ElementsAre(0));
  EXPECT_EQ(loop.finished(), 4);
}

TEST(Rollout, OfATrainedModelHasTheChunksOfItsTraining) {
  const std::map<std::string, std::string> lines{
      {"dit", "teacher_forcing = true\nchunk = 3\nfirst_chunk = 1\nwindow = 2\nsink = 1"}};
  const test::ScratchRun run(lines);
  const FrameOptions rule = frame_rule_of(run.context("film"), {});
  EXPECT_EQ(std::tuple(rule.teacher_forcing, rule.chunk, rule.first_chunk, rule.window, rule.sink),
            std::tuple(true, 3, 1, 2, 1));
  EXPECT_EQ(generating_rule(rule).first_chunk, 1);
  EXPECT_EQ(training_rule(rule).first_chunk, 1);
}

TEST(Rollout, MadeAgainAfterARewindIsTheSame) {
  Summed network;
  network.plan.chunks.first = 2;
  Rollout loop = network.loop();
  while (!loop.done()) network.next(loop);
  const at::Tensor whole = loop.latent();
  for (const int64_t frames : {5, 2, 0}) {
    Summed again;
    loop.rewind(frames);
    EXPECT_EQ(loop.finished(), frames);
    while (!loop.done()) again.next(loop);
    EXPECT_TRUE(at::equal(loop.latent(), whole)) << frames;
  }
  EXPECT_THAT(test::refusal([&] { loop.rewind(3); }), testing::HasSubstr("is not the end of a chunk of 3"));
}

}  // namespace
}  // namespace kinora::core::inference
