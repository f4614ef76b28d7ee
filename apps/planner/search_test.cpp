#include "apps/planner/search.hpp"

#include <ctime>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/planner/paper_testing.hpp"

namespace kinora::core::plan {
namespace {

using testing::HasSubstr;

Problem problem(const char* cluster, int64_t batch, int64_t context = 32768) {
  Problem p;
  p.shape = paper_dit(48, 48, context);
  p.cluster = *parse_cluster(cluster);
  p.batch = batch;
  return p;
}

TEST(PlanSearch, Takes4096GpusInASecondOfOneProcessor) {
  const Problem p = problem("512x8xH100", 4096);
  const auto start = std::clock();
  const auto found = search(p);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(found) << found.failure().message;
  std::printf("%lld layouts in %.2f s\n", static_cast<long long>(found->legal), seconds);
  EXPECT_GT(found->legal, 89000);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they make it 10 to 20 times slower
  EXPECT_LT(seconds, 1);
#endif
}

TEST(PlanSearch, EveryLayoutIsLegalAndCanBeSimulated) {
  for (const char* cluster : {"1x1xH100", "2x8xH100", "3x4xA100"}) {
    Problem p = problem(cluster, 48, 8192);
    p.shape = paper_stdit(24, 256);
    int64_t count = 0;
    each_layout(p, [&](const Layout& l) {
      EXPECT_TRUE(broken_rules(l, p).empty()) << l.text();
      if (count++ % 7) return;
      const BlockTime b = block_time(l, p);
      const Step s = simulate_step(l, p, b);
      EXPECT_GT(s.mfu, 0) << l.text();
      EXPECT_LT(s.mfu, p.efficiency.matrix) << l.text();
      double sum = 0;
      for (const auto& [what, t] : s.spent) sum += t;
      EXPECT_NEAR(sum / s.seconds, 1, 1e-6) << l.text();
      EXPECT_NEAR(estimate_step(l, p, b) / s.seconds, 1, 0.35) << l.text();
    });
    EXPECT_GT(count, 0) << cluster;
  }
}

TEST(PlanSearch, NoLayoutThatFitsIsFasterThanTheFirst) {
  const Problem p = problem("2x8xH100", 32, 16384);
  const auto found = search(p);
  ASSERT_TRUE(found) << found.failure().message;
  EXPECT_LE(total(found->best[0].memory), room(p));
  double least = 1e30;
  each_layout(p, [&](Layout l) {
    if (lighten(l, p)) least = std::min(least, simulate_step(l, p, block_time(l, p)).seconds);
  });
  EXPECT_LE(found->best[0].step.seconds, 1.03 * least);
}

// The model is so small that launches and messages take all its time.
TEST(PlanSearch, FewerGpusThatAreAsFastAreTheFewest) {
  Problem p = problem("2x8xH100", 16, 8192);
  p.shape = transformer("tiny", 2, 1, {Sight::all}, {16, 1024, 256}, 512);
  for (Branch& b : p.shape.branches)
    for (Attention& a : b.attentions) a.heads = a.kv_heads = 8, a.head_size = 16;
  p.shape.layer_parameters = layer_parameters(p.shape, 1000), p.shape.outer = 1000, p.shape.patches = 64;
  const auto seconds = [&](int64_t nodes, int64_t per_node) {
    Problem part = p;
    part.cluster.nodes = nodes, part.cluster.per_node = per_node;
    return search(part, 1)->best.front().step.seconds;
  };
  const double all = seconds(2, 8);
  const auto fewer = as_fast_with_fewer(p, all);
  ASSERT_TRUE(fewer);
  EXPECT_LE(fewer->plan.step.seconds, 1.01 * all);
  EXPECT_EQ(fewer->plan.layout.size(), fewer->cluster.size());
  for (int64_t n = 1; n < fewer->cluster.size() && n < 8; n *= 2) EXPECT_GT(seconds(1, n), 1.01 * all) << n;
  EXPECT_THAT(text_of(*fewer), HasSubstr("fewer GPUs are as fast: --cluster " + fewer->cluster.text()));
  EXPECT_FALSE(
      as_fast_with_fewer(problem("2x8xH100", 64), search(problem("2x8xH100", 64))->best[0].step.seconds));
}

TEST(PlanSearch, WhatCannotBeIsSaid) {
  EXPECT_THAT(search(problem("1x1xcpu", 1)).failure().message, HasSubstr("nothing fits: the leanest layout"));
  Problem odd = problem("7x1xH100", 1);
  odd.shape.layers = 1, odd.shape.frames = odd.shape.patches = 1;
  EXPECT_THAT(search(odd).failure().message, HasSubstr("no layout of 7 GPUs is legal for batch = 1"));
}

TEST(PlanReport, SaysWhyAndWhatToWrite) {
  const Problem p = problem("32x8xH100", 256, 73728);
  const auto found = search(p, 3);
  ASSERT_TRUE(found);
  const std::string text = text_of(*found, p);
  for (const char* part : {"tok/s/GPU", "time    attention", "activations",
                           "without cp:", "fsdp alone:", "parallel = [{ use = \"", "accumulate = "})
    EXPECT_THAT(text, HasSubstr(part));
  Found alone = *found;
  alone.legal = alone.fit = 1;
  EXPECT_THAT(text_of(alone, p), HasSubstr("why the first of 1 legal layout, all of which fit"));
  const Problem one = problem("1x2xH100", 1);
  const auto piped = price(*parse_layout("pp=2"), one);
  ASSERT_TRUE(piped);
  EXPECT_THAT(text_of(*piped, one), HasSubstr("at 1 microbatch\n"));
  const auto json = json_of(*found, p);
  EXPECT_EQ(json["plans"].size(), 3u);
  EXPECT_EQ(json["gpus"], 256);
  EXPECT_TRUE(json["plans"][0]["fits"]);
}

TEST(PlanMemory, IsThatOfItsParts) {
  Problem p = problem("8x8xH100", 64, 8192);
  const auto bytes = [&](const char* layout, const std::string& name) {
    for (const auto& h : held(*parse_layout(layout), p))
      if (h.name == name) return h.bytes;
    return 0.0;
  };
  const double weights = p.shape.parameters();
  EXPECT_EQ(bytes("dp=64", "weights"), 2 * weights);
  EXPECT_EQ(bytes("dp=64", "optimizer"), 12 * weights);
  EXPECT_EQ(bytes("fsdp=64", "weights"), 2 * weights / 64);
  EXPECT_EQ(bytes("fsdp=64,stage=1", "weights"), 2 * weights);
  EXPECT_EQ(bytes("fsdp=64,stage=1", "gradients"), 4 * weights);
  EXPECT_EQ(bytes("fsdp=64,stage=2", "gradients"), 4 * weights / 64);
  EXPECT_EQ(bytes("cp=8,dp=8", "activations"), bytes("dp=64", "activations") / 8);
  EXPECT_EQ(bytes("tp=8,dp=8", "activations"), bytes("dp=64", "activations") / 8);
  // Under 1F1B the first stage has a quarter of the layers and holds four microbatches, so the bytes are
  // equal.
  EXPECT_EQ(bytes("pp=4,dp=4,tp=4", "activations"), bytes("dp=16,tp=4", "activations"));
  EXPECT_LT(bytes("dp=64,recompute=1", "activations"), 0.1 * bytes("dp=64", "activations"));
}

}  // namespace
}  // namespace kinora::core::plan
