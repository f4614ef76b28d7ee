// Tests of the shape that a model's calls of its context give.
#include "apps/planner/shape.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::core::plan {
namespace {

using Call = ModelOutline::Call;

Call linear(int64_t block, uint32_t role, int64_t in, int64_t out, int64_t rows = 6) {
  return {block, ModelOutline::Linear{true, role, rows, in, out}, {}};
}
Call shared(int64_t block, uint32_t role, int64_t in, int64_t out, int64_t rows) {
  return {block, ModelOutline::Linear{false, role, rows, in, out}, {}};
}

// Two layers of width 8 over 6 tokens: attention of 2 heads with 1 of keys, a gated MLP of 12 channels, and
// in the second layer cross-attention to 5 tokens of a text.
ModelOutline two_layers() {
  ModelOutline o;
  o.model = "model/theirs", o.blocks = 4, o.width = 8, o.frames = 3, o.patches = 2;
  o.parameters = {{-1, 100}, {0, 24}, {1, 400}, {2, 600}, {3, 16}};
  o.calls = {shared(-1, KINORA_ROLE_WHOLE, 4, 8, 1), linear(0, KINORA_ROLE_WHOLE, 3, 8)};
  for (const int64_t b : {1, 2}) {
    o.calls.push_back(shared(b, KINORA_ROLE_WHOLE, 8, 16, 1));
    for (const int64_t out : {8, 4, 4}) o.calls.push_back(linear(b, KINORA_ROLE_COLUMN, 8, out));
    o.calls.push_back({b, {}, ModelOutline::Attention{true, KINORA_OVER_ALL, 6, 0, 2, 1, 4}});
    o.calls.push_back(linear(b, KINORA_ROLE_ROW, 8, 8));
    if (b == 2) {
      o.calls.push_back(linear(b, KINORA_ROLE_COLUMN, 8, 8));
      o.calls.push_back(shared(b, KINORA_ROLE_COLUMN, 7, 8, 5));
      o.calls.push_back(shared(b, KINORA_ROLE_COLUMN, 7, 8, 5));
      o.calls.push_back({b, {}, ModelOutline::Attention{true, {}, 6, 5, 2, 2, 4}});
      o.calls.push_back(linear(b, KINORA_ROLE_ROW, 8, 8));
    }
    for (int i = 0; i < 2; ++i) o.calls.push_back(linear(b, KINORA_ROLE_COLUMN, 8, 12));
    o.calls.push_back(linear(b, KINORA_ROLE_ROW, 12, 8));
  }
  o.calls.push_back(linear(3, KINORA_ROLE_WHOLE, 8, 2));
  return o;
}

TEST(PlanShape, BranchesAreThoseOfTheLayersCalls) {
  const auto s = shape_of(two_layers());
  ASSERT_TRUE(s) << s.failure().message;
  ASSERT_EQ(s->branches.size(), 3u);
  EXPECT_EQ(s->branches[0], (Branch{8, 16, 8, 8, {}, {{Sight::all, 2, 1, 4, 0}}, 1}));
  EXPECT_EQ(s->branches[1], (Branch{8, 24, 12, 8, {}, {}, 1}));
  EXPECT_EQ(s->branches[2], (Branch{8, 8, 8, 8, {{5, 7, 16}}, {{Sight::none, 2, 2, 4, 5}}, 0.5}));
  EXPECT_EQ(s->layers, 2);
  EXPECT_EQ(s->layer_parameters, 500);
  EXPECT_EQ(s->parameters(), 1140);
  EXPECT_EQ(s->ends, 3 * 8 + 8 * 2);
  EXPECT_FALSE(s->factorised());
}

TEST(PlanShape, OperationsAreTheSumOverItsCalls) {
  const double N = 6,
               layer = 2 * N * (8 * 16 + 8 * 8) + 4 * 8 * N * N + 2 * N * (8 * 24 + 12 * 8) + 2 * 8 * 16;
  const double cross = 2 * N * 2 * 8 * 8 + 2 * 5 * 7 * 16 + 4 * 8 * N * 5;
  EXPECT_DOUBLE_EQ(shape_of(two_layers())->forward_flops(),
                   2 * layer + cross + 2 * N * (3 * 8 + 8 * 2) + 2 * 4 * 8);
}

// A model without roles: each linear layer of tokens leads back to the stream, and nothing is lost.
TEST(PlanShape, LinearLayersWithoutRolesAreCounted) {
  ModelOutline o = two_layers();
  for (auto& c : o.calls)
    if (c.linear && c.linear->tokens) c.linear->role = KINORA_ROLE_WHOLE;
  EXPECT_DOUBLE_EQ(shape_of(o)->forward_flops(), shape_of(two_layers())->forward_flops());
}

TEST(PlanShape, AModelWithoutLayersIsRefused) {
  ModelOutline o = two_layers();
  o.blocks = 0;
  EXPECT_THAT(shape_of(o).failure().message,
              testing::HasSubstr("call sequence() of its context, then block()"));
}

}  // namespace
}  // namespace kinora::core::plan
