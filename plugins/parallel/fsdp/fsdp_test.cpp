// Sharded data parallelism against one process: output, loss, every gradient, and the parameters after steps.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "core/torch/context/parallelism.hpp"
#include "kernels/wire/wire.hpp"
#include "tests/support/equality.hpp"
#include "tests/support/rank_strategies.hpp"
#include "tests/support/training.hpp"

namespace kinora {
namespace {

namespace models = test::models;
using test::Rank;
using test::ScratchRun;
using test::Trial;

std::string fsdp(const std::string& more = "", const std::string& beside = "") {
  return "[{ use = 'fsdp'" + (more.empty() ? "" : ", " + more) + " }" + beside + "]";
}

void all(int ranks, const std::vector<Trial>& trials) {
  test::on_ranks(
      ranks,
      [&](const Rank& me) {
        for (const auto& t : trials) test::equals_one_process(me, t);
      },
      120);
}

core::Frames rule(int64_t chunk, int64_t streams = 1) {
  core::Frames out;
  out.causal = true;
  out.chunk = chunk;
  out.streams = streams;
  return out;
}

TEST(Fsdp, EqualsOneProcessAtEveryStage) {
  for (const int size : {2, 4})
    all(size, {{.parallel = fsdp(), .micro = 2, .frames = 1, .rows = 10, .cols = 14},
               {.parallel = fsdp("stage = 2"), .micro = 2, .rows = 2, .cols = 2},
               {.parallel = fsdp("stage = 1"), .micro = 2, .rows = 2, .cols = 2},
               {.parallel = fsdp("prefetch = 0"), .rows = 2, .cols = 2, .steps = 2},
               {.parallel = fsdp("prefetch = 7"), .rows = 2, .cols = 2, .text = 0, .steps = 2}});
}

TEST(Fsdp, EqualsOneProcessForEveryModelAndRule) {
  all(2, {{.parallel = fsdp(), .model = models::kStDit, .frames = 3, .rows = 2, .cols = 14, .steps = 2},
          {.parallel = fsdp(), .model = models::kWan, .frames = 5, .rows = 2, .cols = 6, .steps = 2},
          {.parallel = fsdp(), .model = models::kCosmos, .rule = rule(1), .frames = 3, .steps = 2},
          {.parallel = fsdp(), .rule = rule(1, 2), .each = 2, .steps = 2}});
}

TEST(Fsdp, EqualsOneProcessUnderRecompute) {
  all(2, {{.parallel = fsdp("", ", 'recompute'"), .micro = 2, .rows = 2, .cols = 2},
          {.parallel = fsdp("", ", { use = 'recompute', every = 2 }"), .rows = 2, .cols = 2},
          {.parallel = fsdp("stage = 2", ", 'recompute'"), .micro = 2, .rows = 2, .cols = 2}});
}

TEST(Fsdp, EqualsOneProcessWithCopiesAlongAnotherAxis) {
  all(4, {{.parallel = fsdp("size = 2", ", 'ddp'"), .micro = 2, .rows = 2, .cols = 2},
          {.parallel = fsdp("size = 2, stage = 1", ", 'ddp'"), .micro = 2, .rows = 2, .cols = 2}});
}

TEST(Fsdp, EqualsOneProcessOnEightRanks) { all(8, {{.parallel = fsdp(), .rows = 2, .cols = 2, .steps = 1}}); }

TEST(Fsdp, EqualsOneProcessInFloat32) {
  all(2, {{.parallel = fsdp(), .rows = 2, .cols = 2, .precision = "fp32", .steps = 1},
          {.parallel = fsdp("stage = 1"), .rows = 2, .cols = 2, .precision = "fp32", .steps = 1}});
}

// Includes blocks whose own parameters are all frozen, and whose data needs no gradient.
TEST(Fsdp, EqualsOneProcessForAdaptersOfAFrozenModel) {
  const core::LoraOptions some{.rank = 2, .targets = {"linear_q", "linear_fc1", "linear_proj"}};
  all(2, {{.parallel = fsdp(), .micro = 2, .rows = 2, .cols = 2, .lora = some},
          {.parallel = fsdp("stage = 1", ", 'recompute'"), .rows = 2, .cols = 2, .lora = some},
          {.parallel = fsdp("", ", 'recompute'"), .rows = 2, .cols = 2, .lora = some}});
}

TEST(Fsdp, TrainsAsOneProcessDoes) {
  test::on_ranks(2, [](const Rank& me) {
    for (const char* stage : {"3", "1"}) {
      me.launched();
      const auto lines =
          test::trained(me, fsdp(std::string("stage = ") + stage), "batch = 4\naccumulate = 2\n");
      if (me.rank != 0) continue;
      Rank::alone();
      const auto wanted = test::trained({0, 1, me.folder, 0}, "['single']", "batch = 4\naccumulate = 2\n");
      ASSERT_EQ(lines.size(), 3U);
      for (size_t i = 0; i < 3; ++i)
        for (const char* key : {"loss", "gradient_norm"})
          EXPECT_NEAR(lines[i].at(key).get<double>() / wanted[i].at(key).get<double>(), 1, 1e-10) << key << i;
    }
  });
}

TEST(Fsdp, OfOneRankIsNoLink) {
  test::on_ranks(1, [](const Rank&) {
    const ScratchRun run({{"dit", std::string("parallel = ['fsdp']")}});
    core::JobContext context = run.context("dit", false);
    EXPECT_TRUE(core::Parallelism(context).links().empty());
  });
}

// Every rank computes with the same rounded parameters: what each rank's part decodes to, its own too.
TEST(Fsdp, GathersInFewerBytesTheSameOnAllRanks) {
  test::on_ranks(2, [](const Rank& me) {
    for (const auto& [name, format] :
         {std::pair{"fp8", wire::Format::fp8}, std::pair{"nvfp4", wire::Format::nvfp4}}) {
      core::ChainOptions options;
      test::StrategyChain model(me, fsdp(std::string("stage = 2, gather_dtype = '") + name + "'"), options);
      const auto p = model.matrices({{9, 15}})[0];
      const at::Tensor shard = model.chain.leaves().at(0).tensor.detach();
      kinora_pass pass{};
      pass.struct_size = sizeof pass;
      pass.no_grad = 1;
      model.chain.begin(pass);
      const at::NoGradGuard off;
      at::Tensor seen;
      model.ctx.block(0, {at::ones({1})}, {}, 1, [&](const std::vector<at::Tensor>& in) {
        seen = model.ctx.value(p).clone();
        return in;
      });
      const Group<at::Tensor> group(&model.strategies.group("fsdp"));
      const at::Tensor parts = group.gather(shard.view({1, 1, -1}), 0);
      const at::Tensor want =
          wire::unpacked(wire::packed(parts, format, "shards"), 1, shard.numel(), format, at::kFloat);
      EXPECT_TRUE(at::equal(seen.flatten(), want.flatten().narrow(0, 0, 9 * 15))) << name;
      EXPECT_FALSE(at::equal(seen.flatten(), parts.flatten().narrow(0, 0, 9 * 15))) << name;
      EXPECT_TRUE(at::equal(shard, model.chain.leaves().at(0).tensor)) << "the optimizer's numbers";
    }
  });
}

TEST(Fsdp, IsNearOneProcessWithFewerBytes) {
  test::on_ranks(2, [](const Rank& me) {
    const auto off = [&](const std::string& dtype) {
      return test::worst_difference(
          me, {.parallel = fsdp("gather_dtype = '" + dtype + "'"), .precision = "fp64", .steps = 1},
          core::Compared::Kind::output);
    };
    const double bfloat16 = off("bfloat16"), fp8 = off("fp8"), nvfp4 = off("nvfp4");
    EXPECT_LT(bfloat16, 0.01);
    EXPECT_GT(fp8, bfloat16);
    EXPECT_LT(fp8, 0.1);
    EXPECT_GT(nvfp4, fp8);
    EXPECT_LT(nvfp4, 0.4);
  });
}

}  // namespace
}  // namespace kinora
