// Results of a score are checked before use, errors name the component, and ranks merge in their order.
#include "core/torch/network/score_instance.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/cancel.hpp"
#include "core/torch/ranks/mesh.hpp"
#include "kinora/aten.hpp"
#include "kinora/score.hpp"
#include "tests/support/plugins.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using testing::HasSubstr;

// A score of the stable tier: the mean of the tensor `x`, but for the results that a test sets.
class MeanOfX final : public MeanScore<kinora::Tensor> {
 public:
  struct Options {};
  static void describe(Describe<Options>& d) { d.name("wrong").help("of a test"); }
  explicit MeanOfX(const Options&) {}
  kinora::Tensor each(const kinora::Run& run, const Named<kinora::Tensor>& in) override {
    run.check_cancelled();
    EXPECT_FALSE(in.has("unlisted"));
    EXPECT_FALSE(GradMode::enabled());
    return in["x"];
  }
};

ComponentSpec score_spec(std::vector<std::string> inputs, std::vector<std::string> outputs) {
  test::plugins();
  ComponentSpec spec;
  spec.kind = "score";
  spec.id = "score/wrong";
  for (const auto& name : inputs) spec.inputs.emplace_back().name = name;
  for (const auto& name : outputs) spec.outputs.emplace_back().name = name;
  return spec;
}

TEST(ScoreInstance, GivesTheNumbersOfItsManifest) {
  const ComponentSpec spec = score_spec({"x", "y"}, {"mean"});
  ComponentSpec only_x = spec;
  only_x.inputs.pop_back();
  ScoreInstance score({&only_x, nullptr, MeanOfX::api<MeanOfX>()}, Options());
  EXPECT_THAT(test::refusal([&] { score.compute(); }), HasSubstr("score/wrong: no sample has this score"));
  score.update({{"x", at::tensor({1.0, 2.0})}, {"unlisted", at::ones({1})}});
  score.update({{"x", at::tensor({6}, at::kLong)}});
  EXPECT_TRUE(at::equal(score.state(), at::tensor({1.0, 2.0, 6.0}, at::kDouble)));
  ASSERT_EQ(score.compute().size(), 1U);
  EXPECT_EQ(score.compute()[0].first, "mean");
  EXPECT_DOUBLE_EQ(score.compute()[0].second, 3);
  EXPECT_THAT(test::refusal([&] {
                score.update({{"x", at::ones({2, 2})}});
              }),
              HasSubstr("score/wrong: each() must return one number per sample"));

  ScoreInstance both({&spec, nullptr, MeanOfX::api<MeanOfX>()}, Options());
  EXPECT_EQ(test::refusal([&] { both.update({{"x", at::ones({1})}}); }), "score/wrong: input 'y' is missing");
  const ComponentSpec two = score_spec({"x"}, {"mean", "other"});
  ScoreInstance short_of_one({&two, nullptr, MeanOfX::api<MeanOfX>()}, Options());
  short_of_one.update({{"x", at::ones({1})}});
  EXPECT_THAT(test::refusal([&] { short_of_one.compute(); }),
              HasSubstr("compute() returned 1 numbers; the manifest has 2 outputs"));
}

// A score in C whose state is the tensor that a test sets.
at::Tensor given_state;
const kinora_score kWrongScore = {
    sizeof(kinora_score),
    0,
    [](const kinora_host*, const kinora_options*) -> void* { return &given_state; },
    [](void*) {},
    [](void*, const kinora_run*, const kinora_named*, uint64_t) -> int32_t {
      return set_error(KINORA_ERROR_DATA, "no idea");
    },
    [](void*, kinora_tensor* out) {
      *out = give(given_state);
      return KINORA_OK;
    },
    [](void*, kinora_tensor) -> int32_t { return KINORA_ERROR_FAILED; },
    [](void*, double*, uint64_t) -> int32_t { return 77; },
    nullptr};

TEST(ScoreInstance, NamesWhatIsWrong) {
  const ComponentSpec spec = score_spec({}, {"mean"});
  ScoreInstance score({&spec, nullptr, &kWrongScore}, Options());
  EXPECT_EQ(test::refusal([&] { score.update({}); }), "score/wrong: no idea");
  EXPECT_THAT(test::refusal([&] { score.merge(at::ones({1}, at::kDouble)); }), HasSubstr("score/wrong"));
  EXPECT_THAT(test::refusal([&] { score.compute(); }), HasSubstr("score/wrong: returned 77"));
  given_state = at::Tensor();
  EXPECT_EQ(test::refusal([&] { score.state(); }), "score/wrong: state returned no tensor");
  for (const at::Tensor& wrong : {at::ones({2}), at::ones({1, 2}, at::kDouble),
                                  at::ones({2}, at::TensorOptions(at::kMeta).dtype(at::kDouble))}) {
    given_state = wrong;
    EXPECT_THAT(test::refusal([&] { score.state(); }),
                HasSubstr("score/wrong: state must be a float64 [S] on the CPU, found"));
  }
  given_state = at::Tensor();
}

// A score in C that uses the slots of a run that no SDK checks.
TEST(ScoreInstance, WithoutARunGivesOneThatNobodyStops) {
  kinora_score asks = kWrongScore;
  asks.update = [](void*, const kinora_run* run, const kinora_named*, uint64_t) -> int32_t {
    EXPECT_NE(run->noise, nullptr);
    return run->cancelled(run->self);
  };
  const ComponentSpec spec = score_spec({}, {"mean"});
  ScoreInstance score({&spec, nullptr, &asks}, Options());
  cancel(true);
  score.update({});
  cancel(false);
}

TEST(ScoreInstance, OfOneRankIsItsOwnWhole) {
  const ComponentSpec spec = score_spec({"x"}, {"mean"});
  const Component component{&spec, nullptr, MeanOfX::api<MeanOfX>()};
  ScoreInstance mine(component, Options()), none(component, Options()), whole(component, Options());
  mine.update({{"x", at::tensor({1.0, 4.0})}});
  MeshOwner alone;
  merge_ranks(*alone.group("world"), none, whole);
  EXPECT_EQ(whole.state().numel(), 0);
  merge_ranks(*alone.group("world"), mine, whole);
  EXPECT_TRUE(at::equal(whole.state(), mine.state()));
}

}  // namespace
}  // namespace kinora::core
