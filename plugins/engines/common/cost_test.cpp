// What a run says of its stages' costs, for plans.
#include "plugins/engines/common/run_testing.hpp"

namespace kinora::engines::made_up {
namespace {

TEST(MadeUpRun, SaysWhatAPlanNeedsToKnowOfAStage) {
  Pipeline p;
  p.inputs = 4;
  p.add("cut", {}, [](const std::string& key, int) { return Play{key < "2" ? 1.0 : 3.0, {key}}; });
  auto& look = p.add("look", {0}, [](const std::string&, int) { return Play{2, {}}; });
  look.workers = 2;
  look.needs.cores = 0.5;
  EXPECT_EQ(p.run(), "");
  const auto& stages = p.last_report["stages"];
  EXPECT_NEAR(stages[0]["seconds"].get<double>(), 8, 1e-6);
  EXPECT_NEAR(stages[0]["cost"]["deviation"].get<double>(), 1, 1e-6);
  EXPECT_NEAR(stages[1]["cost"]["deviation"].get<double>(), 0, 1e-6);
  EXPECT_EQ(stages[0]["cost"]["from"], nlohmann::json::array());
  EXPECT_EQ(stages[1]["cost"]["from"], nlohmann::json::array({0}));
  EXPECT_EQ(stages[0]["cost"]["asked"], 0);
  EXPECT_EQ(stages[1]["cost"]["asked"], 2);
  EXPECT_EQ(stages[1]["cost"]["cpus"], 0.5);
}

}  // namespace
}  // namespace kinora::engines::made_up
