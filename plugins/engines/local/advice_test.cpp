#include <nlohmann/json.hpp>

#include "plugins/engines/local/engine_testing.hpp"

namespace kinora::local {
namespace {

auto sleeping(int ms) {
  return [ms](Sample in, const Emit& emit, const kinora::Run&) {
    sleep_ms(ms);
    emit(std::move(in));
  };
}

// A stage with a sixteenth of the work needs one core of eight; each further instance would cost its start.
TEST(Advice, MakesNoMoreCostlyInstancesThanTheWorkNeeds) {
  Pipeline p;
  p.threads = 8;
  p.add("read", {}, pass);
  p.add("slow", {0},
        sleeping(60));  // so much longer that delays of the other stage on a busy machine do not matter
  auto& costly = p.add("costly", {1}, sleeping(1));
  costly.start_ms = 600;  // more than the work that can be queued before it
  p.add("write", {2}, consume);
  p.inputs(400);
  EXPECT_EQ(p.run(), "");
  EXPECT_LE(costly.made, 2)
      << "an equal share of the cores at first, one of eight then; without the rule seven";
  EXPECT_GT(p.stages[1].made, 5) << "threads that cost nothing take every core";
  const auto report = nlohmann::json::parse(p.reports.back());
  EXPECT_EQ(report["stages"][2]["wanted"], 1);
  EXPECT_EQ(report["stages"][2]["workers"], costly.made.load());
}

TEST(Advice, MakesAllInstancesWhereOneStageHasTheWork) {
  Pipeline p;
  p.threads = 8;
  p.add("quick", {}, pass);
  auto& costly = p.add("costly", {0}, sleeping(30));
  costly.start_ms = 5;
  p.add("write", {1}, consume);
  p.inputs(160);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(costly.made, 8);
}

// Cores divided by the core seconds per input, from the figures of the same report.
TEST(Advice, SaysWhatTheMachineReachesAtBest) {
  Pipeline p;
  p.threads = 4;
  p.add("one", {}, sleeping(4));
  p.add("three", {0}, sleeping(12));
  p.inputs(150);
  EXPECT_EQ(p.run(), "");
  const auto report = nlohmann::json::parse(p.reports.back());
  double each = 0;
  for (const auto& stage : report["stages"])
    each += stage["seconds"].get<double>() / stage["in"].get<double>();
  const double expected = report["expected"].get<double>();
  EXPECT_NEAR(expected * each / 4, 1, 0.1);
  const double reached = 150 / report["seconds"].get<double>();
  EXPECT_LE(reached * each, 4 * 1.001) << "a core works on one sample at a time";
  EXPECT_GE(reached, 0.7 * expected);
}

TEST(Advice, OfOneWorkerExpectsNoMoreThanItsTime) {
  Pipeline p;
  p.threads = 8;
  p.add("quick", {}, sleeping(1));
  p.add("writer", {0}, sleeping(8)).ordered = true;
  p.inputs(60);
  EXPECT_EQ(p.run(), "");
  const auto report = nlohmann::json::parse(p.reports.back());
  const auto& writer = report["stages"][1];
  EXPECT_NEAR(report["expected"].get<double>() * writer["seconds"].get<double>() / writer["in"].get<double>(),
              1, 0.1);
}

}  // namespace
}  // namespace kinora::local
