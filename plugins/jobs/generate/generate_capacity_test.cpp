// A cache that shows a chunk less than the model was trained to see is a warning, and one that shows nothing a problem.
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/log.hpp"
#include "host/stages/stage_check.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core::generate_capacity {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Checked {
  std::string problems, warnings;
};

// rule: chunk, window and sink of the training.
Checked checked(const std::string& rule, const std::string& cache) {
  const test::ScratchRun run(
      {{"dit", "teacher_forcing = true\n" + rule}, {"film", "cache = { use = 'kv', " + cache + " }"}});
  EXPECT_EQ(run.problems(), "");
  Checked out;
  const auto file = run.folder() / "log";
  {
    const auto log = or_throw(LogFile::open(file));
    const std::string before = log_level();
    or_throw(set_log_level("warn"));
    for (const auto& p : check_jobs(test::runtime(), run.run(), 0)) out.problems += format(p) + "\n";
    or_throw(set_log_level(before));
  }
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  out.warnings = text.str();
  return out;
}

TEST(CacheCapacity, IsRefusedIfAChunkWouldSeeNothingBeforeIt) {
  EXPECT_THAT(
      checked("chunk = 1\nwindow = 3\nsink = 1", "capacity = 1").problems,
      HasSubstr("capacity = 1 leaves a chunk nothing before it: it counts latent frames, the sink (0) "
                "and the chunk itself (1) included; give 2 or more, or leave it out for the 4 latent"));
  EXPECT_THAT(checked("chunk = 2", "capacity = 3, sink = 2").problems,
              HasSubstr("the sink (2) and the chunk itself (2) included; give 4 or more"));
  for (const auto& [rule, cache] : {std::pair{"chunk = 2\nwindow = 1", "capacity = 2"},
                                    {"chunk = 2", "capacity = 3"},
                                    {"chunk = 1\nwindow = 3\nsink = 1", "capacity = 2, sink = 1"}})
    EXPECT_THAT(checked(rule, cache).problems, Not(HasSubstr("capacity"))) << rule << ", " << cache;
}

TEST(CacheCapacity, IsWarnedOfIfItIsLessThanTheTrainingHad) {
  const std::string rule = "chunk = 2\nwindow = 3\nsink = 1";
  EXPECT_THAT(
      checked(rule, "capacity = 7, sink = 2").warnings,
      HasSubstr("capacity = 7 shows a chunk less than the 8 latent frames that the model was trained"));
  // LongLive's form of the same.
  EXPECT_THAT(checked(rule, "capacity = 8, sink = 2").warnings, Not(HasSubstr("capacity")));
  EXPECT_THAT(checked("chunk = 2", "capacity = 4").warnings, Not(HasSubstr("capacity"))) << "no window";
}

}  // namespace
}  // namespace kinora::core::generate_capacity
