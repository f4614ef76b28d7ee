// Sessions of a pipeline that several ranks share.
#include <map>
#include <optional>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/inference/rollout_testing.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core::inference {
namespace {

using test::Rank;
using test::ScratchRun;
using testing::HasSubstr;

const std::map<std::string, std::string> kRun{{"film", "prompts = ['red sea']\nparallel = ['cfg']"}};

// The two ranks of guidance, one for each prediction.
struct Shared {
  explicit Shared(const Rank& me) : run(kRun) {
    EXPECT_EQ(run.problems(), "");
    me.launched();
    plain.emplace(run);
  }
  Pipeline& pipeline() { return plain->pipeline; }
  static Request request() {
    Request out;
    out.seed = 5;
    out.prompt = "red sea";
    out.guidance[0].scale = 2;
    return out;
  }
  ScratchRun run;
  std::optional<PlainPipeline> plain;
};

TEST(SessionsOfRanks, AreOneAtATime) {
  test::on_ranks(2, [](const Rank& me) {
    Shared shared(me);
    {
      Session first(shared.pipeline(), Shared::request());
      EXPECT_THAT(test::refusal([&] { const Session second(shared.pipeline(), Shared::request()); }),
                  HasSubstr("server: 2 ranks share this pipeline, and they make one video at a time; end the "
                            "other session first"));
      EXPECT_TRUE(first.next_chunk()) << "the refused one leaves nothing behind";
    }
    Session next(shared.pipeline(), Shared::request());
    EXPECT_TRUE(next.next_chunk());
  });
}

TEST(SessionsOfRanks, AreCancelledTogetherByOneRank) {
  test::on_ranks(
      2,
      [](const Rank& me) {
        Shared shared(me);
        Session* cancelled = nullptr;
        Session session(shared.pipeline(), Shared::request(), {.step = [&](int64_t done) {
                          if (me.rank == 1 && done == 2) cancelled->cancel();
                        }});
        cancelled = &session;
        EXPECT_THAT(test::refusal([&] { session.next_chunk(); }), HasSubstr("cancelled"));
        EXPECT_EQ(session.state().step, 2) << "the same step on both";
        EXPECT_FALSE(session.next_chunk());
        EXPECT_THAT(test::refusal([&] { session.set_prompt("blue"); }), HasSubstr("was cancelled"));
      },
      30);
}

// The latent of a video with two cuts, made chunk by chunk on a cache.
at::Tensor in_chunks_by(const std::string& strategies, const Guidance& guidance,
                        const std::string& precision = "fp64") {
  const ScratchRun run(
      {{"dit",
        "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 2, "
        "heads = 4, head_size = 12, adaln_lora = 4 }"},
       {"film", "prompts = ['red sea']\nprecision = '" + precision + "'\nparallel = [" + strategies + "]"}});
  EXPECT_EQ(run.problems(), "");
  LatentFacts facts = PlainPipeline::latents_of_15_frames();
  PipelineSpec spec = PlainPipeline::spec(run, facts);
  spec.rule.teacher_forcing = true;
  spec.rule.chunk = 2, spec.rule.window = 2, spec.rule.sink = 1;
  spec.shots = {Frames::Pin::own, 8};
  spec.fps = 8;
  spec.parts["cache"] = {shared_use(*run.spec("film").component("cache")), {}};
  Parallelism parallel(test::runtime(), PlainPipeline::plan(run));
  Pipeline pipeline(test::runtime(), spec, parallel);
  Request request = Shared::request();
  request.guidance[0] = guidance;
  request.shots = {R"({"prompt": "red sea", "chunks": 2})",
                   R"({"prompt": "blue", "chunks": 2, "switch": "recache"})",
                   R"({"prompt": "red", "chunks": 1})"};
  Session session(pipeline, request);
  while (session.next_chunk()) continue;
  const at::Tensor made = session.made().latent;
  session.rewind(3);
  while (session.next_chunk()) continue;
  EXPECT_TRUE(at::equal(session.made().latent, made)) << strategies << ", made again";
  return made;
}

TEST(SessionsOfRanks, MakeTheChunksOfOneProcess) {
  const Guidance always{.scale = 2}, sometimes{.scale = 2, .from = 0.5, .to = 5}, none{.scale = 1},
      negative{.scale = 0, .from = 0.5, .to = 5};
  struct Case {
    const char* strategies;
    int ranks;
    std::vector<Guidance> guidances;
  };
  for (const auto& c : {Case{"'cfg'", 2, {always, sometimes, none, negative}},
                        {"{ use = 'cp-ulysses', size = 2 }", 2, {always}},
                        {"{ use = 'cp-ulysses', size = 4 }", 4, {none}},
                        {"{ use = 'tp', size = 2 }", 2, {always}},
                        {"'balanced-sp'", 2, {always}},
                        {"'fsdp'", 2, {sometimes}}})
    test::on_ranks(c.ranks, [c](const Rank& me) {
      std::vector<at::Tensor> alone;
      for (const auto& guidance : c.guidances) alone.push_back(in_chunks_by("'ddp'", guidance));
      me.launched();
      for (size_t i = 0; i < alone.size(); ++i) {
        const at::Tensor together = in_chunks_by(c.strategies, c.guidances[i]);
        EXPECT_LT(((together - alone[i]).abs().max() / alone[i].abs().max()).item<double>(), 1e-10)
            << c.strategies << ", guidance " << i;
      }
    });
}

// The frames that a session gives, and those from its third chunk on that it gives when they are made again.
struct Given {
  std::vector<at::Tensor> chunks, again;
};

Given given_by(const std::string& strategies) {
  const ScratchRun run(
      {{"tokenizer", kStreaming},
       {"dit", kDeepDit},
       {"film", "prompts = ['red sea']\nprecision = 'fp64'\nparallel = [" + strategies + "]"}});
  EXPECT_EQ(run.problems(), "");
  PipelineSpec spec = PlainPipeline::spec(run, PlainPipeline::latents_of_15_frames());
  spec.rule = in_chunks(4);
  Parallelism parallel(test::runtime(), PlainPipeline::plan(run));
  Pipeline pipeline(test::runtime(), spec, parallel);
  Session session(pipeline, Shared::request());
  Given out;
  while (const auto frames = session.next_chunk()) out.chunks.push_back(*frames);
  session.rewind(2);
  session.make_rest([&](const at::Tensor& frames) { out.again.push_back(frames); });
  return out;
}

TEST(SessionsOfRanks, GiveTheChunksThatTheFirstOneDecodes) {
  test::on_ranks(2, [](const Rank& me) {
    const Given alone = given_by("'ddp'");
    me.launched();
    const Given together = given_by("'cfg'");
    ASSERT_EQ(together.chunks.size(), 4U);
    ASSERT_EQ(together.again.size(), 2U);
    for (size_t i = 0; i < 4; ++i) {
      const at::Tensor& got = together.chunks[i];
      ASSERT_EQ(got.defined(), me.rank == 0) << i;
      if (me.rank > 0) continue;
      ASSERT_EQ(got.sizes(), alone.chunks[i].sizes());
      EXPECT_LE((got.to(at::kInt) - alone.chunks[i].to(at::kInt)).abs().max().item<int>(), 1) << i;
      EXPECT_TRUE(i < 2 || at::equal(together.again[i - 2], got)) << i;
    }
  });
}

TEST(SessionsOfRanks, MakeTheChunksOfOneProcessInFloat32) {
  const Guidance always{.scale = 2};
  for (const char* strategies :
       {"'cfg'", "{ use = 'cp-ulysses', size = 2 }", "{ use = 'tp', size = 2 }", "'balanced-sp'", "'fsdp'"})
    test::on_ranks(2, [&](const Rank& me) {
      const at::Tensor exact = in_chunks_by("'ddp'", always), alone = in_chunks_by("'ddp'", always, "fp32");
      me.launched();
      const at::Tensor together = in_chunks_by(strategies, always, "fp32");
      const auto apart = [](const at::Tensor& a, const at::Tensor& b) {
        return ((a - b).abs().max() / b.abs().max()).item<double>();
      };
      // 1e-5 with AVX2; with AVX-512 one process itself is up to 1.08e-5 from float64.
      EXPECT_LT(apart(together, alone), 2e-5) << strategies;
      EXPECT_GT(apart(alone, exact), 1e-9) << "it is not in float32";
    });
}

}  // namespace
}  // namespace kinora::core::inference
