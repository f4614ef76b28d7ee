#include "core/base/program_output.hpp"

#include <gtest/gtest.h>

namespace kinora::core {
namespace {

TEST(OutputOf, IsAllTextOfStdout) {
  const auto said = output_of({"sh", "-c", "seq 1 3000; echo hidden >&2"});
  EXPECT_EQ(said.size(), 9 * 2 + 90 * 3 + 900 * 4 + 2001 * 5);
  EXPECT_TRUE(said.ends_with("\n3000\n"));
}

TEST(OutputOf, TakesWordsAsTheyAre) {
  EXPECT_EQ(output_of({"/bin/sh", "-c", "echo \"$1\"", "sh", "a b; c"}), "a b; c\n");
}

TEST(OutputOf, IsEmptyWithoutTheProgram) { EXPECT_EQ(output_of({"kinora-no-such-program"}), ""); }

}  // namespace
}  // namespace kinora::core
