// A served model of several ranks has LoRAs under strategies that cut weights, and a session that ends on all
// ranks when the first one fails.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/generate/joint_session.hpp"
#include "plugins/jobs/inference/rollout_testing.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core::served_ranks {
namespace {

using inference::PlainPipeline;
using inference::Session;
using test::Rank;
using testing::HasSubstr;

Request request_of(const LoraUse& lora = {}) {
  Request out;
  out.seed = 5;
  out.prompt = "red sea";
  out.guidance[0].scale = 2;
  out.lora = lora;
  return out;
}

// Matrices of all kinds that tensor ranks cut, and whole differences of norms.
void write_lora(const ScratchRun& run) {
  const auto network = run.model("dit");
  at::manual_seed(5);
  NamedTensors out;
  for (const auto& p : network->chain().parameters()) {
    const std::string module = module_of(p.name);
    bool is_adapted = false;
    for (const char* end : {"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"})
      is_adapted = is_adapted || module.ends_with(end);
    if (p.shape.size() == 2 && is_adapted) {
      out[lora_a(module)] = at::randn({2, p.shape[1]}, at::kFloat) / 4;
      out[lora_b(module)] = at::randn({p.shape[0], 2}, at::kFloat) / 4;
    } else if (p.shape.size() == 1 && !module.empty()) {
      out[module + ".diff"] = at::randn(p.shape, at::kFloat) / 8;
    }
  }
  ASSERT_GT(out.size(), 6U);
  write_tensors(run.folder() / "lora.safetensors", out);
}

struct Latents {
  at::Tensor plain, adapted, again;
};

Latents latents_by(const std::string& strategies) {
  const ScratchRun run(
      {{"dit", inference::kDeepDit},
       {"film", "prompts = ['red sea']\nprecision = 'fp64'\nparallel = [" + strategies + "]"}});
  EXPECT_EQ(run.problems(), "");
  write_lora(run);
  inference::PipelineSpec spec = PlainPipeline::spec(run, PlainPipeline::latents_of_15_frames());
  spec.loras = lora_files({R"({"name": "a", "file": "lora.safetensors"})"}, run.folder());
  Parallelism parallel(test::runtime(), PlainPipeline::plan(run));
  inference::Pipeline pipeline(test::runtime(), spec, parallel);
  const auto latent = [&](const LoraUse& lora) {
    Session session(pipeline, request_of(lora));
    while (session.next_chunk()) continue;
    return session.made().latent;
  };
  Latents out;
  out.plain = latent({});
  out.adapted = latent({"a", 0.5});
  out.again = latent({});
  return out;
}

TEST(LorasOfRanks, AreThoseOfOneProcess) {
  for (const char* strategies : {"{ use = 'tp', size = 2 }", "'fsdp'"})
    test::on_ranks(2, [strategies](const Rank& me) {
      const Latents alone = latents_by("'ddp'");
      me.launched();
      const Latents together = latents_by(strategies);
      EXPECT_GT(inference::apart(alone.adapted, alone.plain), 1e-3);
      EXPECT_LT(inference::apart(together.plain, alone.plain), 1e-10) << strategies;
      EXPECT_LT(inference::apart(together.adapted, alone.adapted), 1e-10) << strategies;
      EXPECT_TRUE(at::equal(together.again, together.plain)) << strategies;
    });
}

TEST(JointSessions, EndOnAllRanksByWhatFailsOnTheFirst) {
  test::on_ranks(2, [](const Rank& me) {
    const ScratchRun run({{"tokenizer", inference::kStreaming},
                          {"dit", inference::kDeepDit},
                          {"film", "prompts = ['red sea']\nparallel = ['cfg']"}});
    EXPECT_EQ(run.problems(), "");
    me.launched();
    inference::PipelineSpec spec = PlainPipeline::spec(run, PlainPipeline::latents_of_15_frames());
    spec.rule = inference::in_chunks(1);  // so many chunks that the error comes before the end
    Parallelism parallel(test::runtime(), PlainPipeline::plan(run));
    inference::Pipeline pipeline(test::runtime(), spec, parallel);
    const auto follow = [&] {
      Session session(pipeline, request_of());
      return test::refusal([&] { session.make_rest([](const at::Tensor&) {}); });
    };
    if (me.rank > 0) {
      EXPECT_THAT(follow(), HasSubstr("cancelled")) << "while it is made";
      EXPECT_THAT(follow(), HasSubstr("cancelled")) << "before it begins";
      EXPECT_THAT(follow(), HasSubstr("cancelled")) << "before there is one";
      EXPECT_EQ(follow(), "nothing was refused");
      return;
    }
    int taken = 0;
    const auto fail = [&](const at::Tensor&) {
      ++taken;
      throw Error(KINORA_ERROR_IO, "the disk is full");
    };
    {
      Session session(pipeline, request_of());
      JointSession joint(session);
      EXPECT_EQ(test::refusal([&] { joint.make_rest(fail); }), "the disk is full");
      EXPECT_EQ(taken, 1);
    }
    {
      Session session(pipeline, request_of());
      const JointSession joint(session);
    }
    const Request request = request_of();
    {
      const AwaitedSession fails(pipeline, request);
    }
    AwaitedSession awaited(pipeline, request);
    Session session(pipeline, request);
    JointSession joint(session, awaited);
    taken = 0;
    joint.make_rest([&](const at::Tensor&) { ++taken; });
    EXPECT_EQ(taken, 15);
  });
}

}  // namespace
}  // namespace kinora::core::served_ranks
