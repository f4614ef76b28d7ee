#include "apps/planner/simulate.hpp"

#include <gtest/gtest.h>

#include "apps/planner/cost.hpp"
#include "apps/planner/paper_testing.hpp"

namespace kinora::core::plan {
namespace {

TEST(Simulation, ATaskBeginsWhenItsStreamIsFreeAndWhatItWaitsForHasEnded) {
  Simulation s;
  const int a = s.stream(), b = s.stream();
  const auto first = s.add(a, 2, "x");
  const auto other = s.add(b, 3, "y", first);
  const auto last = s.add(a, 1, "x");
  s.wait(last, other);
  EXPECT_EQ(s.run(), 6);
  EXPECT_EQ(s.end(other), 5);
  EXPECT_EQ(s.busy(a).at("x"), 3);
  EXPECT_EQ(s.idle(a).at("y"), 3);
  EXPECT_TRUE(s.idle(b).contains("x"));
}

TEST(Simulation, ACircleIsAnError) {
  Simulation s;
  const int a = s.stream(), b = s.stream();
  const auto x = s.add(a, 1, "x"), y = s.add(b, 1, "y", x);
  s.wait(x, y);
  EXPECT_THROW(s.run(), std::logic_error);
}

// A run whose messages and updates take no time, so that only the schedule matters.
Problem only_compute(int64_t batch) {
  Problem p;
  p.shape = paper_dit(32, 32, 8192);
  p.shape.ends = p.shape.outer = 0;
  p.cluster = *parse_cluster("1x4xH100");
  p.cluster.gpu.link = p.cluster.gpu.memory_bandwidth = 1e30;
  p.cluster.link_latency = 0;
  p.efficiency.launch = 0;
  p.batch = batch;
  return p;
}

double bubble(const std::string& text, int64_t microbatches) {
  Problem p = only_compute(microbatches);
  const Layout l = *parse_layout(text);
  const BlockTime b = block_time(l, p);
  const Step s = simulate_step(l, p, b);
  const double work = static_cast<double>(microbatches * p.shape.layers / l.pp) * (b.forward + b.backward);
  return (s.seconds - s.spent.at("optimizer")) / work - 1;
}

// Narayanan et al. 2021 (arXiv 2104.04473), section 2.2: (P - 1) / M, interleaved (P - 1) / (v M).
TEST(Schedule, BubblesAreThoseOfTheClosedForm) {
  for (const int64_t m : {4, 8, 16, 64}) {
    const double M = static_cast<double>(m);
    EXPECT_NEAR(bubble("pp=4,schedule=gpipe", m), 3 / M, 1e-6) << m;
    EXPECT_NEAR(bubble("pp=4", m), 3 / M, 1e-6) << m;
    EXPECT_NEAR(bubble("pp=4,virtual=2", m), 3 / M / 2, 1e-6) << m;
    EXPECT_NEAR(bubble("pp=4,virtual=4", m), 3 / M / 4, 1e-6) << m;
  }
}

TEST(Schedule, EveryChunkGoesForwardOnceAndThenBackward) {
  for (const char* text : {"pp=4,schedule=gpipe", "pp=4", "pp=4,virtual=2", "pp=2,virtual=4", "pp=1"}) {
    const Layout l = *parse_layout(text);
    for (int64_t stage = 0; stage < l.pp; ++stage) {
      std::map<std::pair<int64_t, int64_t>, int> state;
      int64_t held = 0, most = 0;
      for (const Turn& t : turns(l, stage, 8)) {
        int& s = state[{t.chunk, t.microbatch}];
        EXPECT_EQ(s, t.backward ? 1 : 0) << text;
        ++s;
        most = std::max<int64_t>(most, held += t.backward ? -1 : 1);
      }
      EXPECT_EQ(static_cast<int64_t>(state.size()), 8 * l.virtual_stages) << text;
      EXPECT_EQ(held, 0);
      if (stage == 0) {
        EXPECT_EQ(most, chunks_in_flight(l, 8)) << text;
      }
    }
  }
}

}  // namespace
}  // namespace kinora::core::plan
