// DPM-Solver++ 2M against diffusers' EDMDPMSolverMultistepScheduler and against the exact flow.
#include "plugins/samplers/sampler_testing.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

const char* const kId = "sampler/dpmpp-2m";

TEST(Dpmpp2m, EqualsDiffusers) {
  double worst = 0, worst32 = 0;
  for (const auto& name : test::cases("dpmpp")) {
    const test::Oracle o("samplers.safetensors", name);
    const double d = test::oracle_difference(kId, o), d32 = test::oracle_difference(kId, o, "sample32");
    EXPECT_LT(d, 1e-12) << name;
    EXPECT_LT(d32, 1e-5) << name;  // diffusers' levels are float32, starting at 80
    worst = test::worse(worst, d), worst32 = test::worse(worst32, d32);
  }
  RecordProperty("worst", std::to_string(worst * 1e12) + "e-12");
  RecordProperty("worst32", std::to_string(worst32 * 1e6) + "e-6");
}

TEST(Dpmpp2m, IsSecondOrder) {
  const core::json fine = {{"sigma_max", 20.0}, {"sigma_min", 1e-4}};
  EXPECT_NEAR(test::measured_order(kId, 160, fine), 2.0, 0.1);
  core::json heun = fine;
  heun["solver_type"] = "heun";
  EXPECT_NEAR(test::measured_order(kId, 160, heun), 2.0, 0.1);
}

TEST(Dpmpp2m, AsksOnceAStepAtEachLevel) {
  for (int64_t n : {1, 2, 35}) {
    auto made = test::sampled(kId, {{"steps", n}}, test::line(), at::ones({2, 1}, at::kDouble));
    EXPECT_EQ(made.calls, n);
    EXPECT_EQ(made.steps, n);
    made.levels.pop_back();
    EXPECT_EQ(made.visited, made.levels);
  }
}

TEST(Dpmpp2m, OwesTheCaller) {
  test::expect_cancellation_leaves_nothing(kId, {{"steps", 8}});
  test::expect_error_passes(kId, {{"steps", 8}});
  test::expect_deterministic(kId, {{"steps", 8}});
}

TEST(Dpmpp2m, RefusesAGridThatDoesNotDescend) {
  EXPECT_EQ(test::refusal(kId, {{"sigma_min", 2.0}, {"sigma_max", 2.0}}),
            "sampler/dpmpp-2m: sigma_min = 2.0 must be below sigma_max = 2.0");
}

TEST(EdmSamplers, GoOnFromTheMiddle) {
  for (const char* id : {"sampler/euler", "sampler/edm-heun"})
    test::expect_goes_on_from_the_middle(id, {{"steps", 8}});
}

}  // namespace
}  // namespace kinora
