// The solvers of Cosmos Predict 1 against its own code and against the exact flow.
#include "plugins/samplers/sampler_testing.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

const char* const kId = "sampler/res";
struct Named {
  const char* solver;
  int64_t calls;  // per step
  double order;
};
const std::vector<Named> kSolvers = {{"2ab", 1, 2},         {"1euler", 1, 1},    {"2mid", 2, 2},
                                     {"2mid_stable", 2, 2}, {"2heun_edm", 2, 2}, {"2heun_naive", 2, 1},
                                     {"3kutta_naive", 3, 3}};

TEST(Res, EqualsCosmos) {
  double worst = 0;
  for (const auto& name : test::cases("res_")) {
    const double d = test::oracle_difference(kId, test::Oracle("samplers.safetensors", name));
    EXPECT_LT(d, 1e-12) << name;
    worst = test::worse(worst, d);
  }
  RecordProperty("worst", std::to_string(worst * 1e12) + "e-12");
}

// 2heun_naive is of first order, as published: the error of the slope at its step's start is of the order of
// the step.
TEST(Res, HasTheOrderOfItsSolver) {
  for (const auto& s : kSolvers) {
    const core::json options = {
        {"solver", s.solver}, {"sigma_max", 20.0}, {"sigma_min", 0.02}, {"final_denoise", false}};
    EXPECT_NEAR(test::measured_order(kId, 120 * s.calls, options), s.order, 0.1) << s.solver;
  }
}

TEST(Res, CountsItsCalls) {
  for (const auto& s : kSolvers)
    for (int64_t steps : {s.calls, 2 * s.calls, int64_t{35}})
      for (const bool clean : {true, false}) {
        const auto made =
            test::sampled(kId, {{"solver", s.solver}, {"steps", steps}, {"final_denoise", clean}},
                          test::line(), at::ones({2, 1}, at::kDouble));
        const int64_t intervals = steps / s.calls;
        EXPECT_EQ(made.calls, intervals * s.calls + clean) << s.solver << steps;
        EXPECT_EQ(made.steps, intervals + clean);
        EXPECT_EQ(made.of, intervals + clean);
        EXPECT_EQ(made.levels.size(), static_cast<size_t>(intervals) + 1);
      }
}

TEST(Res, LevelsEndAtSigmaMin) {
  const auto t = test::levels_of(test::Instance<kinora_sampler>(kId));
  ASSERT_EQ(t.size(), 36u);
  EXPECT_DOUBLE_EQ(t.front(), 80);
  EXPECT_NEAR(t.back(), 0.002, 1e-15);
  EXPECT_TRUE(std::is_sorted(t.rbegin(), t.rend()));
}

TEST(Res, OwesTheCaller) {
  for (const auto& s : kSolvers) {
    const core::json options = {{"solver", s.solver}, {"steps", 24}, {"s_churn", 2.0}};
    test::expect_cancellation_leaves_nothing(kId, options);
    test::expect_error_passes(kId, options);
    test::expect_deterministic(kId, options);
  }
}

TEST(Res, RefusesWhatItCannotDo) {
  EXPECT_EQ(test::refusal(kId, {{"sigma_min", 90.0}}),
            "sampler/res: sigma_min = 90.0 must be below sigma_max = 80.0");
  EXPECT_EQ(test::refusal(kId, {{"steps", 2}, {"solver", "3kutta_naive"}}),
            "sampler/res: steps = 2 is less than one step of solver \"3kutta_naive\", which takes 3 calls");
  EXPECT_NE(test::refusal(kId, {{"solver", "3kutta"}}), "");
  const core::json close = {{"steps", 3}, {"sigma_min", 1.0}, {"sigma_max", 1.000001}};
  try {
    test::sampled(kId, close, test::line(), at::ones({2, 1}, at::kDouble));
    FAIL() << "a step of length 0";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("too close for a second-order step; take fewer steps"),
              std::string::npos);
  }
}

TEST(Res, GoesOnFromTheMiddle) {
  for (const auto& s : kSolvers)
    if (s.calls > 1) test::expect_goes_on_from_the_middle(kId, {{"solver", s.solver}, {"steps", 24}});
}

}  // namespace
}  // namespace kinora
