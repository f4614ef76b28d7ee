// Videos made chunk by chunk: on a cache of keys and values as by masked attention over all frames.
#include "plugins/jobs/inference/rollout.hpp"

#include <random>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/inference/plain_pipeline_testing.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/worst.hpp"

namespace kinora::core::inference {
namespace {

const char* const kDit = "";
const char* const kDeepDit =
    "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 2, heads = 2, "
    "head_size = "
    "12, adaln_lora = 4 }";
const char* const kWan =
    "model = { use = 'wan', in_channels = 2, out_channels = 2, text_dim = 12, num_layers = 2, "
    "num_attention_heads = "
    "2, attention_head_dim = 12, ffn_dim = 16, freq_dim = 8 }\nloss = 'flow'";

struct Small {
  explicit Small(const std::string& model, int64_t steps = 3)
      : run(prepared({{"dit", model},
                      {"film", fmt::format("precision = 'fp64'\nsampler = {{ use = '{}', steps = {} }}",
                                           model == kWan ? "flow-euler" : "euler", steps)}})) {}
  // The video's latent, [1, C, T, H, W].
  at::Tensor made(const FrameOptions& rule, const Request& request, int64_t frames, const json& cache) {
    LatentFacts facts = PlainPipeline::latents_of_15_frames();
    facts.shape[1] = frames;
    PipelineSpec spec = PlainPipeline::spec(*run, facts);
    spec.rule = rule;
    if (!cache.is_null()) {
      const auto& component = *or_throw(test::runtime().registry().find("cache", "cache/kv"));
      ComponentUse use = *run->spec("film").component("cache");
      use.options = or_throw(Options::make(component, cache));
      spec.parts["cache"] = {shared_use(use), {}};
    }
    Parallelism parallel(test::runtime(), PlainPipeline::plan(*run));
    Pipeline pipeline(test::runtime(), spec, parallel);
    Session session(pipeline, request);
    while (session.next_chunk()) continue;
    calls = session.made().model_calls;
    kept = session.made().cache_tokens;
    return session.made().latent;
  }

  std::unique_ptr<test::ScratchRun> run;
  int64_t calls = 0, kept = 0;
};

FrameOptions in_chunks(int64_t chunk, int64_t window = 0, int64_t sink = 0) {
  FrameOptions out;
  out.teacher_forcing = true;
  out.chunk = chunk, out.window = window, out.sink = sink;
  return out;
}

class Cached : public testing::TestWithParam<const char*> {};

TEST_P(Cached, IsMaskedAttentionOverAllFrames) {
  const at::NoGradGuard off;
  std::mt19937 random(7);
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int64_t steps : {1, 2, 4}) {
    Small small(GetParam(), steps);
    for (int round = 0; round < 22; ++round) {
      const int64_t window = draw(0, 3);
      const FrameOptions rule = in_chunks(draw(1, 4), window, window > 0 ? draw(0, 2) : 0);
      Request request{.number = draw(0, 5), .seed = 5, .prompt = "red sea", .negative = "blue"};
      Guidance& guidance = request.guidance[0];
      guidance.scale = std::array{1.0, 0.0, 2.5}[static_cast<size_t>(draw(0, 2))];
      guidance.batched = draw(0, 1) == 1;
      if (draw(0, 2) == 0) guidance.from = 0.3, guidance.to = 2;
      const int64_t frames = draw(1, 9);
      const at::Tensor want = small.made(rule, request, frames, nullptr);
      const at::Tensor got = small.made(rule, request, frames, json::object());
      ASSERT_LT((got - want).abs().max().item<double>(), 1e-12 * want.abs().max().item<double>())
          << frames << " frames in chunks of " << rule.chunk << ", window " << rule.window << ", sink "
          << rule.sink << ", guidance " << guidance.scale << (guidance.batched ? " batched" : "") << " from "
          << guidance.from;
    }
  }
}

std::string name_of(const testing::TestParamInfo<const char*>& info) {
  return std::vector<std::string>{"Dit", "DeepDit", "Wan"}.at(info.index);
}
INSTANTIATE_TEST_SUITE_P(Of, Cached, testing::Values(kDit, kDeepDit, kWan), name_of);

TEST(CachedRollout, KeepsTheTokensOfTheWindowAndTheSinkAlone) {
  const at::NoGradGuard off;
  Small small(kDeepDit);
  small.made(in_chunks(2, 2, 1), {.prompt = "red sea"}, 15, json::object());
  const int64_t area = 2 * 4;
  EXPECT_EQ(small.kept, 6 * area) << "a sink of one chunk, and two chunks: the last one is not read";
  small.made(in_chunks(2), {.prompt = "red sea"}, 15, {{"capacity", 5}, {"sink", 1}});
  EXPECT_EQ(small.kept, 5 * area);
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
  RolloutPlan plan{.frames = 7, .chunk = 3, .mix = KINORA_MIX_RECTIFIED_FLOW, .keeps = true};
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

TEST(Rollout, MadeAgainAfterARewindIsTheSame) {
  Summed network;
  Rollout loop = network.loop();
  while (!loop.done()) network.next(loop);
  const at::Tensor whole = loop.latent();
  for (const int64_t frames : {6, 3, 0}) {
    Summed again;
    loop.rewind(frames);
    EXPECT_EQ(loop.finished(), frames);
    while (!loop.done()) again.next(loop);
    EXPECT_TRUE(at::equal(loop.latent(), whole)) << frames;
  }
  EXPECT_THAT(test::refusal([&] { loop.rewind(2); }), testing::HasSubstr("is not the end of a chunk of 3"));
}

}  // namespace
}  // namespace kinora::core::inference
