// Opening a plugin that takes long.
#include "core/plugin/opening.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/log.hpp"
#include "tests/abi/plugins_folder.hpp"

namespace kinora::core::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string logged_while_opening(const std::string& variant, double seconds) {
  PluginsFolder folder;
  folder.add({.name = "ends", .id = "stage/ends"}, variant);
  auto registry = folder.scan();
  EXPECT_TRUE(start_log("info"));
  {
    const auto log = or_throw(LogFile::open(folder.path() / "log"));
    EXPECT_EQ(open_component(registry, "stage", "ends", seconds).spec->id, "stage/ends");
  }
  std::ifstream in(folder.path() / "log");
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Opening, SaysForWhichPluginItWaitsIfItTakesLong) {
  EXPECT_THAT(logged_while_opening("sleep_when_opened", 0.1),
              AllOf(HasSubstr("waiting for plugin 'ends' ("),
                    HasSubstr("it is still loading (a busy disk or processor?)")));
  EXPECT_THAT(logged_while_opening("sleep_when_opened", 60), Not(HasSubstr("waiting for")));
}

}  // namespace
}  // namespace kinora::core::test
