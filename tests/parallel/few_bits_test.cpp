// Training in NVFP4 and FP8 under every kind of strategy: scales, stochastic rounding and transforms are those of one
// process, so that output, loss and gradients are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/equality.hpp"
#include "tests/support/refusal.hpp"

namespace kinora {
namespace {

using test::Rank;
using test::Trial;

// All blocks are low; 64 channels, so that two tensor ranks cut no block of 16.
constexpr const char* kLow = "{ use = 'nvfp4', stream = 'float64', high = ['embedding', 'head'] }";
std::string model(const std::string& name = "dit", int layers = 2) {
  return "{ use = '" + name +
         "', in_channels = 2, out_channels = 2, text_size = 12, heads = 4, head_size = 16, adaln_lora = 4, "
         "layers = " +
         std::to_string(layers) + " }";
}

// 105 tokens, which no number of ranks divides into tiles of 16.
Trial low(const std::string& parallel) {
  Trial t;
  t.parallel = "[" + parallel + "]";
  t.model = model();
  t.precision = kLow;
  t.frames = 3, t.rows = 10, t.cols = 14;
  t.steps = 1;
  return t;
}

TEST(Nvfp4, EqualsOneProcessOnTwoRanks) {
  test::on_ranks(2, [](const Rank& me) {
    for (const char* one : {"'ddp'", "'tp'", "'cp-ulysses'", "{ use = 'cp-ring' }"})
      test::equals_one_process(me, low(one));
    Trial sharded = low("'fsdp', 'recompute'");
    sharded.steps = 2;  // other noise in the second
    test::equals_one_process(me, sharded);
    Trial one_tile = low("'cp-ulysses'");
    one_tile.frames = 1, one_tile.rows = 4, one_tile.cols = 6;  // of the second rank all is padding
    test::equals_one_process(me, one_tile);
    Trial pipeline = low("{ use = 'pp', schedule = '1f1b' }");
    pipeline.micro = 2;
    test::equals_one_process(me, pipeline);
  });
}

TEST(Nvfp4, EqualsOneProcessOnFourRanks) {
  test::on_ranks(4, [](const Rank& me) {
    test::equals_one_process(me, low("{ use = 'tp', size = 2 }, { use = 'cp-ring', size = 2 }, 'recompute'"));
    Trial forcing = low("{ use = 'tp', size = 2 }, { use = 'balanced-sp', size = 2 }");
    forcing.frames = 4, forcing.rows = 8, forcing.cols = 8;  // a frame is a tile
    forcing.rule.streams = 2;
    test::equals_one_process(me, forcing);
  });
}

TEST(Nvfp4, RefusesCutsThroughABlock) {
  test::on_ranks(2, [](const Rank& me) {
    Trial channels = low("'tp'");
    channels.model = test::models::dit(4);  // 48 channels
    EXPECT_THAT(test::refusal([&] { test::equals_one_process(me, channels); }),
                testing::HasSubstr("groups of 16 numbers share a scale"));
    Trial tokens = low("'stdit-hybrid'");  // places in turn, not tokens in a row
    tokens.model = model("stdit");
    EXPECT_THAT(
        test::refusal([&] { test::equals_one_process(me, tokens); }),
        testing::AllOf(testing::HasSubstr("16 tokens in a row share a scale of the weight's gradient"),
                       testing::HasSubstr("a frame of 64 tokens instead of 35 would do")));
  });
}

// Places of a frame among ranks: the size that the error names trains like one process.
TEST(Nvfp4, NamesASizeThatCutsNoTile) {
  const auto places = [](const std::string& strategy, int64_t rows, int64_t cols) {
    Trial t = low(strategy);
    t.model = model("stdit");
    t.rows = rows, t.cols = cols;
    return t;
  };
  test::on_ranks(4, [&](const Rank& me) {
    EXPECT_THAT(test::refusal([&] { test::equals_one_process(me, places("'stdit-hybrid'", 8, 16)); }),
                testing::HasSubstr("; 2 ranks of a sequence would do"));
    test::equals_one_process(me, places("{ use = 'stdit-hybrid', size = 2 }, 'ddp'", 8, 16));
  });
  test::on_ranks(2, [&](const Rank& me) { test::equals_one_process(me, places("'stdit-hybrid'", 16, 16)); });
}

// Each sample of a packed row has scales, tiles of tokens and noise of its own, wherever its tokens are.
TEST(PackedRows, OfFewBitsEqualOneProcess) {
  const auto rows = [](const std::string& parallel, const std::string& precision) {
    Trial t = low(parallel);
    t.packed = {{3, 4, 6}, {1, 8, 2}, {2, 6, 4}};
    t.precision = precision;
    return t;
  };
  const std::string fp8 =
      "{ use = 'fp8', stream = 'float64', high = ['embedding', 'head'], attention = 'fp8' }";
  test::on_ranks(2, [&](const Rank& me) {
    for (const char* parallel : {"'ddp'", "'tp'", "'fsdp', 'recompute'"})
      test::equals_one_process(me, rows(parallel, kLow));
    Trial pipeline = rows("{ use = 'pp', schedule = '1f1b' }, 'recompute'", kLow);
    pipeline.micro = 2;
    test::equals_one_process(me, pipeline);
    test::equals_one_process(me, rows("'cp-ulysses'", fp8));
    EXPECT_THAT(test::refusal([&] { test::equals_one_process(me, rows("'cp-ulysses'", kLow)); }),
                testing::HasSubstr("of a sample cut such a group; set batches = \"buckets\""));
  });
}

// Also with rounded heads: a scale for each head, over all its tokens.
TEST(Fp8, EqualsOneProcess) {
  test::on_ranks(2, [](const Rank& me) {
    const auto fp8 = [](const std::string& parallel, const std::string& options) {
      Trial t = low(parallel);
      t.precision = "{ use = 'fp8', stream = 'float64', high = ['embedding', 'head'], " + options + " }";
      return t;
    };
    test::equals_one_process(me, fp8("'tp'", "attention = 'fp8'"));
    test::equals_one_process(me, fp8("'cp-ulysses', 'recompute'", "scaling = 'mx', attention = 'fp8'"));
    test::equals_one_process(me, fp8("'fsdp'", "scaling = 'block', gradients = 'e4m3'"));
    EXPECT_THAT(test::refusal([&] { test::equals_one_process(me, fp8("'cp-ring'", "attention = 'fp8'")); }),
                testing::HasSubstr("cp-ring attends by itself and does not round; use cp-ulysses or "
                                   "stdit-hybrid's layout = \"ulysses\", or leave attention in bf16"));
    EXPECT_THAT(test::refusal([&] { test::equals_one_process(me, fp8("'cp-2d'", "attention = 'fp8'")); }),
                testing::HasSubstr("cp-2d attends by itself"));
    const auto stdit = [&](const std::string& layout) {
      test::equals_one_process(
          me, fp8("{ use = 'stdit-hybrid', layout = '" + layout + "' }", "attention = 'fp8'"));
    };
    for (const char* rings : {"cp", "hybrid"})
      EXPECT_THAT(test::refusal([&] { stdit(rings); }), testing::HasSubstr("stdit-hybrid attends by itself"));
    stdit("ulysses");
  });
}

}  // namespace
}  // namespace kinora
