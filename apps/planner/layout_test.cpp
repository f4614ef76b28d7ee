#include "apps/planner/layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/planner/durations.hpp"
#include "apps/planner/paper_testing.hpp"
#include "apps/planner/search.hpp"

namespace kinora::core::plan {
namespace {

using testing::HasSubstr;

TEST(Layout, IsReadAndWritten) {
  const auto l =
      parse_layout("tp=2, cp=4,pp=4,virtual=2,fsdp=2,stage=1,sequence=cp-2d,ulysses=2,recompute=2");
  ASSERT_TRUE(l) << l.failure().message;
  EXPECT_EQ(l->size(), 64);
  EXPECT_EQ(l->schedule, Schedule::interleaved);
  EXPECT_EQ(l->toml(), R"(parallel = [{ use = "pp", size = 4, schedule = "interleaved", virtual = 2 }, )"
                       R"({ use = "fsdp", size = 2, stage = 1 }, { use = "cp-2d", size = 4, ulysses = 2 }, )"
                       R"({ use = "tp", size = 2 }, { use = "recompute", every = 2 }])");
  EXPECT_EQ(l->words(), "pp=4,fsdp=2,cp=4,tp=2,stage=1,sequence=cp-2d,ulysses=2,virtual=2,recompute=2");
  EXPECT_EQ(Layout().toml(), R"(parallel = ["single"])");
  const struct {
    const char *text, *says;
  } wrong[] = {{"tq=2", "did you mean 'tp'?"},   {"tp", "has no '='"},
               {"tp=0", "tp=0 is not a size"},   {"tp=2x", "tp=2x is not a size"},
               {"stage=4", "1, 2 and 3"},        {"sequence=ring", "cp-ring"},
               {"schedule=zero", "gpipe, 1f1b"}, {"conditioning=x", "recompute or send"}};
  for (const auto& w : wrong)
    EXPECT_THAT(parse_layout(w.text).failure().message, HasSubstr(w.says)) << w.text;
}

Problem seven_b() {
  Problem p;
  p.shape = paper_dit(28, 32, 8192);
  p.cluster = *parse_cluster("8x8xH100");
  p.batch = 64;
  return p;
}

TEST(Layout, EachRuleIsSaidWithItsNumbers) {
  const struct {
    const char *text, *says;
  } cases[] = {
      {"tp=2,cp=4", "pp*dp*fsdp*cp*tp = 8, the cluster has 64 GPUs"},
      {"tp=16,dp=4", "tp = 16 does not divide the 8 GPUs of a node"},
      {"tp=3,dp=8", "heads = 32 (keys and values: 32) are not divisible by tp = 3"},
      {"dp=64,micro=2", "batch = 64 is not divisible by dp*fsdp*micro = 128"},
      {"tp=3,dp=8", "the MLP's 16384 channels are not divisible by tp = 3"},
      {"pp=32,dp=2", "blocks = 30 (layers, embedding and head) are fewer than pp*virtual = 32"},
      {"virtual=2,dp=64", "virtual stages need pp above 1"},
      {"pp=4,virtual=2,schedule=1f1b,dp=16", "virtual = 2 needs schedule=interleaved"},
      {"pp=4,virtual=1,schedule=interleaved,dp=16", "schedule=interleaved needs virtual above 1"},
      {"pp=4,virtual=2,dp=16,micro=2", "groups of pp = 4; a step has 2"},
      {"cp=8,dp=8,sequence=cp-2d,ulysses=3", "ulysses = 3 must divide cp = 8"},
  };
  const Problem p = seven_b();
  for (const auto& c : cases) {
    const auto priced = price(*parse_layout(c.text), p);
    ASSERT_FALSE(priced) << c.text;
    EXPECT_EQ(priced.failure().code, KINORA_ERROR_INVALID);
    EXPECT_THAT(priced.failure().message, HasSubstr(c.says)) << c.text;
    EXPECT_THAT(priced.failure().message, HasSubstr("Nearest legal: ")) << c.text;
  }
}

// Such layouts compute what one process does, so check and run accept them.
TEST(Layout, WhatIsInVainIsPricedWithAWordAndNeverProposed) {
  const struct {
    const char *text, *says;
  } cases[] = {
      {"cp=64,sequence=cp-ulysses",
       "cp-ulysses: 64 ranks exchange heads/tp = 32 heads, so some get only zeros"},
      {"cp=64,sequence=cp-2d,ulysses=64", "take a smaller ulysses"},
      {"cp=8,dp=8,sequence=stdit-hybrid", "requires spatial and temporal attention, which model/dit lacks"},
      {"cp=8,dp=8,sequence=balanced-sp", "without teacher forcing it equals cp-ulysses"},
  };
  const Problem p = seven_b();
  for (const auto& c : cases) {
    const Layout l = *parse_layout(c.text);
    EXPECT_TRUE(price(l, p)) << c.text;
    EXPECT_THAT(vanities(l, p), testing::ElementsAre(HasSubstr(c.says))) << c.text;
  }
  for (const auto& l : nearest(*parse_layout("cp=64,sequence=cp-ulysses"), p, 1000))
    EXPECT_TRUE(vanities(l, p).empty()) << l.text();
}

TEST(Layout, WhatThePrecisionRefusesIsNotLegal) {
  Problem p = seven_b();
  p.refusal = [](const Layout& l) { return l.tp > 1 ? "a block of 16 is cut" : ""; };
  EXPECT_THAT(price(*parse_layout("tp=2,dp=32"), p).failure().message,
              AllOf(HasSubstr("a block of 16 is cut"), HasSubstr("Nearest legal: ")));
  int64_t legal = 0;
  each_layout(p, [&](const Layout& l) {
    EXPECT_EQ(l.tp, 1) << l.text();
    ++legal;
  });
  EXPECT_GT(legal, 0);
}

TEST(Layout, ItsWordsAreReadBack) {
  for (const char* text : {"dp=1", "pp=4,dp=2,tp=2", "pp=4,cp=2,virtual=2", "pp=2,virtual=2,schedule=gpipe",
                           "pp=2,virtual=2,conditioning=send,micro=4", "cp=4,sequence=stdit-hybrid"})
    EXPECT_EQ(parse_layout(text)->words(), text);
}

TEST(Layout, TheNearestLegalOnesAreLegalAndNear) {
  const Problem p = seven_b();
  const auto found = nearest(*parse_layout("tp=16,dp=4"), p);
  ASSERT_EQ(found.size(), 3u);
  for (const auto& l : found) EXPECT_TRUE(broken_rules(l, p).empty()) << l.text();
  EXPECT_EQ(found[0].tp, 8);
}

// The members of rank 0's group that share its node, counted over the mesh.
int64_t counted(const Layout& l, const Cluster& c, bool pp, bool dp, bool fsdp, bool cp, bool tp) {
  int64_t out = 0, rank = 0;
  for (int64_t a = 0; a < l.pp; ++a)
    for (int64_t b = 0; b < l.dp; ++b)
      for (int64_t d = 0; d < l.fsdp; ++d)
        for (int64_t e = 0; e < l.cp; ++e)
          for (int64_t f = 0; f < l.tp; ++f, ++rank)
            out += (pp || !a) && (dp || !b) && (fsdp || !d) && (cp || !e) && (tp || !f) && rank < c.per_node;
  return out;
}

TEST(Groups, ShareANodeAsTheMeshHasThem) {
  const Cluster c = *parse_cluster("8x8xH100");
  for (const char* text : {"tp=2,cp=4,pp=4,dp=2", "tp=2,cp=8,dp=4", "fsdp=8,cp=8", "fsdp=4,dp=4,tp=4",
                           "dp=64", "cp=2,fsdp=2,dp=16", "tp=8,pp=8", "cp=16,tp=4"}) {
    const Layout l = *parse_layout(text);
    EXPECT_EQ(tensor_group(l, c).in_node, counted(l, c, 0, 0, 0, 0, 1)) << text;
    EXPECT_EQ(sequence_group(l, c).in_node, counted(l, c, 0, 0, 0, 1, 0)) << text;
    EXPECT_EQ(shard_group(l, c).in_node, counted(l, c, 0, 0, 1, 0, 0)) << text;
    EXPECT_EQ(replica_group(l, c).in_node, counted(l, c, 0, 1, 0, 1, 0)) << text;
    EXPECT_EQ(pipeline_group(l, c).in_node, counted(l, c, 1, 0, 0, 0, 0)) << text;
  }
}

}  // namespace
}  // namespace kinora::core::plan
