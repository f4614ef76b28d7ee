// Self-forcing's gradient from one two-stream forward against its definition, chunk by chunk.
#include "plugins/jobs/distill/self_forcing.hpp"

#include <set>

#include "plugins/jobs/distill/self_forcing_testing.hpp"

namespace kinora::core::forcing {
namespace {

struct Parallel {
  SelfForced made;
  Tensor x;  // of the two-stream forward
  Gradients gradients;
};

Parallel in_parallel(Setting& s, bool detaches, uint32_t seed) {
  OnCache on(s, detaches);
  Parallel out{on.rolls.roll_out(on.conditions(), s.shape(), on.exits(seed), 0, "test"), {}, {}};
  out.x = on.estimate(out.made);
  (out.x * s.weight()).sum().backward();
  out.gradients = on.student.gradients();
  return out;
}

class SelfForcingGradient : public testing::TestWithParam<ForcingCase> {};

TEST_P(SelfForcingGradient, InParallelEqualsChunkByChunk) {
  Setting s(GetParam());
  for (const uint32_t seed : {1, 2, 3}) {
    const Parallel got = in_parallel(s, /*detaches=*/true, seed);
    EXPECT_LT(furthest(got.x.detach(), got.made.x), 1e-10)
        << "the two-stream forward makes the rollout again";
    const Gradients want = chunk_by_chunk(s, got.made, s.weight());
    ASSERT_EQ(got.gradients.size(), want.size());
    EXPECT_LT(most_apart(got.gradients, want), 1e-10) << "exits of seed " << seed;
  }
}

TEST_P(SelfForcingGradient, IsAnotherOneUnlessTheCleanStreamIsDetached) {
  Setting s(GetParam());
  const Parallel got = in_parallel(s, /*detaches=*/false, 1);
  EXPECT_LT(furthest(got.x.detach(), got.made.x), 1e-10);
  EXPECT_GT(most_apart(got.gradients, chunk_by_chunk(s, got.made, s.weight())), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Of, SelfForcingGradient,
                         testing::Values(ForcingCase{"dit", 5, 2}, ForcingCase{"dit", 6, 1, 3, 1},
                                         ForcingCase{"dit", 6, 1, 2}, ForcingCase{"wan", 7, 2, 2, 1},
                                         ForcingCase{"dit", 6, 2, 2, 1, 1}, ForcingCase{"dit", 7, 2, 2, 0, 3},
                                         ForcingCase{"dit", 6, 1, 3, 1, 0, "flow-euler"},
                                         ForcingCase{"wan", 7, 2, 2, 1, 0, "unipc"}),
                         [](const auto& info) { return testing::PrintToString(info.param); });

// Below the cache: counts the layers that split their outputs and read what all tokens share, such as the text.
class TextLayers final : public kinora::Link<Tensor> {
 public:
  TextLayers() : Link(KINORA_LEVEL_PRECISION) { skip_inherited<TextLayers>(); }
  kinora_param parameter(const kinora_param_spec& spec) override {
    const kinora_param p = next.parameter(spec);
    if (spec.role == KINORA_ROLE_COLUMN) columns_.insert(p);
    return p;
  }
  Tensor linear(const Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) override {
    count += seq == 0 && columns_.contains(w) ? 1 : 0;
    return next.linear(x, w, b, seq);
  }
  int64_t count = 0;

 private:
  std::set<kinora_param> columns_;
};

// Each of two blocks of a dit has one such layer.
TEST(SelfForcing, ProjectsTheTextOnceAVideo) {
  Setting s(ForcingCase{"dit", 6, 1, 3, 1});
  TextLayers layers;
  OnCache on(s, /*detaches=*/true, layers.get());
  for (const int64_t videos : {1, 2}) {
    on.rolls.roll_out(on.conditions(), s.shape(), on.exits(1), 0, "test");
    EXPECT_EQ(layers.count, 2 * videos);
  }
}

}  // namespace
}  // namespace kinora::core::forcing
