// The plan of a curate job: its cluster, its costs from a finished run, and its hours against a closed formula.
#include "apps/planner/curation.hpp"

#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/planner/train_job.hpp"

namespace kinora::core::plan {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

TEST(PlanCuration, ReadsNodesOfSeveralKinds) {
  const auto kinds =
      parse_nodes("1000x{cpus=64,gpus=8,memory=512GiB,network=3GB}+2x{cpus=8,memory=16GB,nvdec=3}");
  ASSERT_TRUE(kinds) << kinds.failure().message;
  ASSERT_EQ(kinds->size(), 2u);
  EXPECT_EQ((*kinds)[0].count, 1000);
  EXPECT_EQ((*kinds)[0].node, (balance::Node{64, 384.0 * (1 << 30), 8, 8, 8}))
      << "three quarters of the memory";
  EXPECT_EQ((*kinds)[0].network, 3e9);
  EXPECT_EQ((*kinds)[1].node, (balance::Node{8, 12e9, 0, 3, 1}));
  for (const auto& [text, says] :
       std::map<std::string, std::string>{{"1000x{gpu=8,cpus=4,memory=1GB}", "did you mean 'gpus'?"},
                                          {"8x8xH100", "expected NODESx{cpus=..,gpus=..,memory=..}"},
                                          {"0x{cpus=1,memory=1GB}", "expected NODESx"},
                                          {"4x{cpus=1,memory=1GB}+", "expected NODESx"},
                                          {"4x{cpus=1}", "needs cpus and memory"},
                                          {"4x{cpus=1.5,memory=1GB}", "cpus is '1.5'"},
                                          {"4x{cpus=-1,memory=1GB}", "cpus is '-1'"},
                                          {"4x{cpus=1,memory=much}", "is not a size"}}) {
    const auto refused = parse_nodes(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_THAT(refused.failure().message, HasSubstr(says));
    EXPECT_THAT(refused.failure().message, HasSubstr("such as 1000x{cpus=64,gpus=8,memory=512GiB}"));
  }
}

json cost(json from, double cpus) {
  return {{"from", from}, {"deviation", 0}, {"starting", 0}, {"ordered", false}, {"asked", 0},
          {"cpus", cpus}, {"gpus", 0.0},    {"memory", 0},   {"nvdec", 0},       {"nvenc", 0}};
}

// A finished run of 10 videos of 1 GB, each read twice, that were cut in 6 s into two clips, which were looked at
// for 1 s each.
class PlanOfRun : public ::testing::Test {
 protected:
  PlanOfRun() {
    kind_.name = "curate";
    run_.file = "my.toml";
    run_.out = fs::path(::testing::TempDir()) / ("plan-" + std::to_string(getpid()));
    run_.jobs.resize(1);
    run_.jobs[0].name = "clips", run_.jobs[0].kind = &kind_;
    run_.jobs[0].options = {{"hash", true}};
    fs::create_directories(folder());
    live_ = {
        {"inputs", 10},
        {"stages",
         json::array(
             {{{"name", "cut"}, {"in", 10}, {"out", 20}, {"seconds", 60.0}, {"cost", cost(json::array(), 1)}},
              {{"name", "look"},
               {"in", 20},
               {"out", 20},
               {"seconds", 20.0},
               {"cost", cost(json::array({0}), 1)}}})}};
    write();
  }
  ~PlanOfRun() override { fs::remove_all(run_.out); }
  fs::path folder() const { return run_.out / "clips"; }
  void write() const {
    std::ofstream(folder() / "live.json") << live_;
    std::ofstream(folder() / "summary.json") << json{{"inputs", 10}, {"bytes_in", 10e9}, {"bytes_kept", 5e9}};
  }
  Result<CurationPlan> planned(int64_t inputs, const std::string& cluster,
                               const engines::simulated::Surroundings& around = {}) const {
    auto measured = measured_job(run_, run_.jobs[0]);
    if (!measured) return measured.failure();
    return plan_curation(std::move(*measured), inputs, cluster, around);
  }
  ComponentSpec kind_;
  RunFile run_;
  json live_;
};

TEST_F(PlanOfRun, TakesTheWorkOfAllVideosDividedByTheCores) {
  const auto plan = planned(1'000'000, "10x{cpus=8,memory=64GB}");
  ASSERT_TRUE(plan) << plan.failure().message;
  EXPECT_NEAR(plan->bound_hours(), 1e6 * 8 / 80 / 3600, 1e-3);
  EXPECT_GE(plan->hours(), plan->bound_hours());
  EXPECT_LE(plan->hours(), 1.08 * plan->bound_hours());
  EXPECT_EQ(plan->bound.limit, "cpus");
  EXPECT_EQ(plan->bound.stage, "cut");
  EXPECT_NEAR(plan->of.job.bytes, 2.5e9, 1);
  EXPECT_NEAR(plan->node_hours(), 10 * plan->hours(), 1e-6);
  const json j = json_of(*plan);
  EXPECT_EQ(j["hours"], plan->hours());
  EXPECT_EQ(j["limit_stage"], "cut");
  EXPECT_THAT(text_of(*plan), HasSubstr("limited by  cpus, of which cut needs most"));
  EXPECT_NEAR(plan->together_hours(), plan->hours(), 0.1 * plan->hours()) << "one scheduler for all";
  EXPECT_THAT(text_of(*plan), HasSubstr("engine/ray  "));
  engines::simulated::Surroundings around;
  around.store = 1e9;
  const auto slow = planned(1'000'000, "10x{cpus=8,memory=64GB}", around);
  ASSERT_TRUE(slow) << slow.failure().message;
  EXPECT_EQ(slow->bound.limit, "store");
  EXPECT_NEAR(slow->bound_hours(), 1e6 * 2.5e9 / 1e9 / 3600, 1e-3);
}

// 10 videos of 8 s on one core, then on 8: minutes, seconds, and their node-hours; one video says nothing of the error.
TEST_F(PlanOfRun, OfASmallJobHasMinutesAndSeconds) {
  const auto minutes = planned(10, "1x{cpus=1,memory=64GB}");
  ASSERT_TRUE(minutes) << minutes.failure().message;
  EXPECT_THAT(text_of(*minutes), HasSubstr("bound       1.3 min: "));
  EXPECT_THAT(text_of(*minutes),
              HasSubstr("costs are those of a run of 10 videos; with so many they are right"));
  live_["inputs"] = 1;
  write();
  const auto seconds = planned(10, "1x{cpus=8,memory=64GB}");
  ASSERT_TRUE(seconds) << seconds.failure().message;
  EXPECT_THAT(text_of(*seconds), HasSubstr("bound       10.0 s: "));
  EXPECT_THAT(text_of(*seconds),
              HasSubstr("costs are those of a run of 1 video; how right they are, only more"));
  EXPECT_THAT(text_of(*seconds), testing::Not(HasSubstr("cost        0 node-hours")));
}

// Nodes with GPUs, which 2 of each 8 seconds need, and nodes without.
TEST_F(PlanOfRun, OfNodesThatCannotRunAllStagesIsThatOfOneScheduler) {
  live_["stages"][1]["cost"]["gpus"] = 1.0;
  write();
  const std::string cluster = "2x{cpus=8,gpus=8,memory=64GB}+2x{cpus=8,memory=64GB}";
  const auto plan = planned(1'000'000, cluster);
  ASSERT_TRUE(plan) << plan.failure().message;
  EXPECT_FALSE(plan->alone);
  EXPECT_NEAR(plan->bound_hours(), 1e6 * 8 / 32 / 3600, 1e-3);
  EXPECT_GE(plan->hours(), plan->bound_hours());
  EXPECT_LE(plan->hours(), 1.1 * plan->bound_hours());
  EXPECT_EQ(json_of(*plan)["together_hours"], plan->hours());
  EXPECT_THAT(text_of(*plan), HasSubstr("by engine/ray: some nodes cannot run all stages"));
  engines::simulated::Surroundings around;
  around.failures = 0.1;
  EXPECT_THAT(planned(10, cluster, around).failure().message, HasSubstr("leave those out, or the options"));
}

TEST_F(PlanOfRun, SaysWhatIsMissing) {
  live_["stages"][1]["cost"]["gpus"] = 1.0;
  write();
  EXPECT_THAT(planned(10, "10x{cpus=8,memory=64GB}").failure().message,
              HasSubstr("stage 'look' takes 1 gpus, and a node has 0 for it"));
  live_["stages"][1]["in"] = 0;
  write();
  EXPECT_THAT(
      planned(10, "1x{cpus=8,memory=64GB}").failure().message,
      HasSubstr("'look' took no sample in that run, so its cost is unknown; run the job on more videos"));
  run_.jobs[0].options["lease"] = 60.0;
  EXPECT_THAT(planned(10, "1x{cpus=8,memory=64GB}").failure().message,
              HasSubstr("unknown; run it without lease on one node"));
  run_.jobs[0].options["lease"] = 0.0;
  live_["stages"][0]["in"] = 0;
  write();
  EXPECT_THAT(planned(10, "1x{cpus=8,memory=64GB}").failure().message,
              HasSubstr("'cut' took no sample in that run, so its cost is unknown; run it without lease"));
  live_["stages"][0].erase("cost");
  write();
  EXPECT_THAT(planned(10, "1x{cpus=8,memory=64GB}").failure().message, HasSubstr("has no 'deviation'"));
  fs::remove(folder() / "summary.json");
  EXPECT_THAT(planned(10, "1x{cpus=8,memory=64GB}").failure().message,
              HasSubstr("kinora run my.toml --only clips"));
  EXPECT_THAT(planned_job(run_, "curate", "clip").failure().message, HasSubstr("did you mean 'clips'?"));
  EXPECT_EQ(*planned_job(run_, "curate", ""), run_.jobs.data());
  EXPECT_EQ(train_job(run_, "").failure().message,
            "plan: my.toml has no train job; for a curate job: --curate");
}

// Whatever the file has, it is data.
TEST_F(PlanOfRun, RefusesADamagedFile) {
  for (const char* text :
       {"", "[]", "{\"stages\": 3}", "{\"stages\": [3]}", "{\"stages\": [{\"cost\": {}}]}"}) {
    std::ofstream(folder() / "live.json") << text;
    EXPECT_FALSE(planned(10, "1x{cpus=8,memory=64GB}")) << text;
  }
  live_["stages"][1]["cost"]["from"] = json::array({7});
  write();
  EXPECT_THAT(planned(10, "1x{cpus=8,memory=64GB}").failure().message, HasSubstr("damaged"));
  live_["stages"][1]["cost"]["from"] = json::array({0});
  live_["stages"][1]["seconds"] = -1;
  write();
  EXPECT_FALSE(planned(10, "1x{cpus=8,memory=64GB}"));
}

}  // namespace
}  // namespace kinora::core::plan
