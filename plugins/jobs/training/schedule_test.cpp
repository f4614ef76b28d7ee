#include "plugins/jobs/training/schedule.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "kinora/error.hpp"

namespace kinora::core {
namespace {

Schedule schedule(const std::string& kind) {
  Schedule s;
  s.kind = kind, s.learning_rate = 2, s.final_rate = 0.5, s.warmup = 4, s.total = 104, s.decay_share = 0.25;
  return s;
}

TEST(Rate, OfEveryKindRisesLinearlyFirst) {
  const double expected[] = {0.5, 1, 1.5, 2};
  for (const char* kind : {"constant", "cosine", "linear", "wsd"})
    for (int i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(rate(schedule(kind), i), expected[i]) << kind;
}

// Each kind's closed form at every step; t is the elapsed share of its decay.
TEST(Rate, ThenFallsAsItsFormulaSays) {
  const auto fall = [](double left) { return 0.5 + 1.5 * left; };
  Schedule straight = schedule("wsd");
  straight.decay_shape = "linear";
  for (int step = 4; step <= 104; ++step) {
    const double t = (step - 4) / 100.0, late = std::max(0.0, (step - 78) / 26.0);
    EXPECT_DOUBLE_EQ(rate(schedule("constant"), step), 2);
    EXPECT_NEAR(rate(schedule("cosine"), step), fall((1 + std::cos(M_PI * t)) / 2), 1e-14);
    EXPECT_NEAR(rate(schedule("linear"), step), fall(1 - t), 1e-14);
    EXPECT_NEAR(rate(schedule("wsd"), step), fall(1 - std::sqrt(late)), 1e-14) << step;
    EXPECT_NEAR(rate(straight, step), fall(1 - late), 1e-14) << step;
  }
  for (const char* kind : {"cosine", "linear", "wsd"})
    EXPECT_DOUBLE_EQ(rate(schedule(kind), 1000), 0.5) << kind;
}

TEST(Rate, OfAFallThatWouldBeginInTheWarmupFallsAfterIt) {
  Schedule s = schedule("wsd");
  s.decay_share = 1, s.decay_shape = "linear";
  EXPECT_DOUBLE_EQ(rate(s, 54), rate(schedule("linear"), 54));
}

TEST(Rate, RefusesWhatIsNoSchedule) {
  EXPECT_THROW(rate(schedule("cubic"), 54), Error);
  Schedule s = schedule("cosine");
  s.total = 4;
  EXPECT_EQ(rate(s, 3), 2) << "a run may end within its warm-up";
  EXPECT_THROW(rate(s, 4), Error);
}

}  // namespace
}  // namespace kinora::core
