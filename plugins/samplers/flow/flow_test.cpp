// Samplers of flow matching against diffusers' schedulers and against the exact flow.
#include "plugins/samplers/sampler_testing.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

using core::json;

// bound32: for diffusers unmodified, whose levels are float32: at the first level, 1 - 1e-6, one digit of 1 -
// s remains.
void expect_oracle(const std::string& id, const std::string& prefix, double bound32) {
  double worst = 0, worst32 = 0, levels = 0;
  for (const auto& name : test::cases(prefix)) {
    const test::Oracle o("samplers.safetensors", name);
    const double d = test::oracle_difference(id, o), d32 = test::oracle_difference(id, o, "sample32");
    EXPECT_LT(d, 1e-12) << name;
    EXPECT_LT(d32, bound32) << name;
    const at::Tensor grid =
        at::tensor(test::levels_of(test::Instance<kinora_sampler>(id, o.options)), at::kDouble);
    levels = test::worse(levels, (grid - o.exact("levels32")).abs().max().item<double>());
    worst = test::worse(worst, d), worst32 = test::worse(worst32, d32);
  }
  EXPECT_LT(levels, 1e-7);
  testing::Test::RecordProperty("worst", std::to_string(worst * 1e12) + "e-12");
  testing::Test::RecordProperty("worst32", std::to_string(worst32 * 1e6) + "e-6");
}

TEST(FlowSamplers, UnipcEqualsDiffusers) { expect_oracle("sampler/unipc", "unipc", 1e-3); }
TEST(FlowSamplers, EulerEqualsDiffusers) { expect_oracle("sampler/flow-euler", "flow_euler", 1e-6); }

// A corrected step is one order above the predictor. The total error is bounded by the last step, to zero,
// from a level of about 1 / steps with an error of its square.
TEST(FlowSamplers, HaveTheirOrder) {
  EXPECT_NEAR(test::measured_order("sampler/flow-euler", 160, {{"convention", "uniform"}}), 1.0, 0.1);
  EXPECT_NEAR(test::measured_order("sampler/flow-euler", 160, {{"convention", "uniform"}, {"shift", 3.0}}),
              1.0, 0.1);
  for (const char* type : {"bh1", "bh2"}) {
    const json options = {{"solver_type", type}, {"order", 2}};
    const double order = test::measured_order("sampler/unipc", 160, options);
    RecordProperty(std::string("unipc ") + type, std::to_string(order));
    EXPECT_GT(order, 1.9) << type;
  }
}

std::vector<double> levels(const std::string& id, const json& options) {
  return test::levels_of(test::Instance<kinora_sampler>(id, options));
}

// The numbers that Wan's pipelines print: timesteps rounded to whole numbers of 1000.
TEST(FlowSamplers, UnipcHasBothPublishedSchedules) {
  const auto timesteps = [](const json& options) {
    std::vector<int> out;
    for (double s : levels("sampler/unipc", options)) out.push_back(static_cast<int>(s * 1000));
    return out;
  };
  json o = {{"steps", 4}, {"shift", 5.0}};
  EXPECT_EQ(timesteps(o), (std::vector<int>{999, 937, 833, 624, 0}));
  EXPECT_NEAR(levels("sampler/unipc", o)[1], 0.937265, 5e-7);
  o["convention"] = "diffusers";
  EXPECT_EQ(timesteps(o), (std::vector<int>{999, 937, 833, 625, 0}));
  EXPECT_NEAR(levels("sampler/unipc", o)[0], 0.999999, 5e-9);
  EXPECT_NEAR(levels("sampler/unipc", o)[3], 0.625936, 5e-7);
  EXPECT_EQ(timesteps({{"steps", 2}, {"shift", 5.0}}), (std::vector<int>{999, 833, 0}));
}

TEST(FlowSamplers, EulerShiftsOnce) {
  const at::Tensor twice = test::Oracle("samplers.safetensors", "").exact("twice_shifted");
  const auto once = levels("sampler/flow-euler", {{"steps", 4}, {"shift", 5.0}});
  const double last = 5 * 0.001 / (1 + 4 * 0.001);
  EXPECT_NEAR(once[3], last, 1e-15);
  EXPECT_NEAR(twice[3].item<double>(), 5 * last / (1 + 4 * last), 1e-7);
  EXPECT_EQ(levels("sampler/flow-euler", {{"steps", 4}, {"shift", 1.0}, {"convention", "uniform"}}),
            (std::vector<double>{1, 0.75, 0.5, 0.25, 0}));
}

TEST(FlowSamplers, AskOnceAStepAtEachLevel) {
  for (const char* id : {"sampler/flow-euler", "sampler/unipc"})
    for (int64_t n : {1, 2, 35}) {
      auto made = test::sampled(id, {{"steps", n}}, test::line(), at::ones({2, 1}, at::kDouble));
      EXPECT_EQ(made.calls, n);
      EXPECT_EQ(made.steps, n);
      made.levels.pop_back();
      EXPECT_EQ(made.visited, made.levels);
    }
}

TEST(FlowSamplers, OweTheCaller) {
  for (const char* id : {"sampler/flow-euler", "sampler/unipc"}) {
    test::expect_cancellation_leaves_nothing(id, {{"steps", 8}});
    test::expect_error_passes(id, {{"steps", 8}});
    test::expect_deterministic(id, {{"steps", 8}});
  }
}

TEST(FlowSamplers, RefuseWhatTheyCannotDo) {
  for (const json& o :
       {json{{"shift", 0.0}}, json{{"order", 4}}, json{{"steps", 0}}, json{{"convention", "flux"}}})
    EXPECT_NE(test::refusal("sampler/unipc", o), "") << o;
  EXPECT_NE(test::refusal("sampler/flow-euler", {{"convention", "wan"}}), "");
}

TEST(FlowSamplers, GoOnFromTheMiddle) {
  test::expect_goes_on_from_the_middle("sampler/flow-euler", {{"steps", 8}});
}

}  // namespace
}  // namespace kinora
