// A run's reports about its time: the trace, and the limit of its speed.
#include <fstream>

#include "plugins/engines/local/engine_testing.hpp"

namespace kinora::local {
namespace {

TEST(LocalEngine, WritesATraceOfWhatItsWorkersDid) {
  const std::string folder = ::testing::TempDir() + "kinora-trace";
  Pipeline p;
  testing::Run run(folder, 2);
  p.cancel_through = &run;
  p.options.profile = true;
  p.add("a", {}, pass);
  p.add("b", {0}, [](Sample in, const Emit&, const kinora::Run&) {
    if (in.key() == "3") throw Error(KINORA_ERROR_DATA, "bad \"bytes\"\n");
  });
  p.inputs(10);
  EXPECT_EQ(p.run(), "");
  std::ifstream in(folder + "/trace.json");
  const auto trace = nlohmann::json::parse(in);
  std::map<std::string, int> spans, results;
  for (const auto& e : trace["traceEvents"])
    if (e["ph"] == "X") ++spans[e["cat"]], ++results[e["args"]["result"]];
  EXPECT_EQ(spans, (std::map<std::string, int>{{"a", 10}, {"b", 10}}));
  EXPECT_EQ(results, (std::map<std::string, int>{{"ok", 19}, {"bad \"bytes\"\n", 1}}));
}

// The slow stage limits the run, by its workers or by the cores that it uses.
TEST(LocalEngine, ReportsWhatBoundsIt) {
  Pipeline p;
  p.threads = 4;
  p.add("quick", {}, pass);
  p.add("writer", {0}, [](Sample, const Emit&, const kinora::Run&) { sleep_ms(30); }).ordered = true;
  p.inputs(80);
  EXPECT_EQ(p.run(), "");
  ASSERT_GE(p.reports.size(), 2u);
  const auto report = nlohmann::json::parse(p.reports[1]);
  EXPECT_EQ(report["bound"], "writer");
  EXPECT_NEAR(report["stages"][1]["busy"].get<double>(), 1, 0.2);
  EXPECT_EQ(report["stages"][1]["limit"], 1);
  EXPECT_FALSE(report.contains("nodes")) << "they are a cluster's";
}

// Two long videos are read quickly, and the first has not ended: the time of a sample is unknown.
TEST(LocalEngine, IsNotBoundByASourceThatHasEnded) {
  Pipeline p;
  p.threads = 4;
  p.add("quick", {}, pass);
  p.add("videos", {0}, [](Sample, const Emit&, const kinora::Run&) { sleep_ms(1300); }).ordered = true;
  p.inputs(2);
  EXPECT_EQ(p.run(), "");
  int waited = 0;
  for (const auto& text : p.reports) {
    const auto report = nlohmann::json::parse(text);
    if (report["inputs"] != 2) continue;
    EXPECT_NE(report["bound"], "source") << text;
    if (report["stages"][1]["queue"] != 1) continue;
    EXPECT_EQ(report["bound"], "videos") << text;
    ++waited;
  }
  EXPECT_GE(waited, 1);
}

TEST(LocalEngine, IsBoundByASourceThatItWaitsFor) {
  Pipeline p;
  p.threads = 4;
  p.add("quick", {}, consume);
  p.next = [n = 0](kinora_sample** out) mutable {
    if (n == 3) return int32_t{KINORA_SIGNAL_END};
    sleep_ms(500);
    *out = Sample(std::to_string(n++)).release();
    return int32_t{KINORA_OK};
  };
  EXPECT_EQ(p.run(), "");
  ASSERT_GE(p.reports.size(), 2u);
  EXPECT_EQ(nlohmann::json::parse(p.reports[0])["bound"], "source") << p.reports[0];
}

}  // namespace
}  // namespace kinora::local
