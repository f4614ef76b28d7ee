#include "apps/command/flags.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora {
namespace {

namespace po = boost::program_options;
using testing::HasSubstr;

Flags search() {
  Flags out;
  out.add_options()("top,k", po::value<int>()->default_value(10)->value_name("N"), "best matches to print")(
      "share", po::value<double>()->default_value(0.05)->value_name("S"), "at most 1")(
      "like", po::value<std::string>()->default_value("")->value_name("CLIP"),
      "a clip in place of a text; its own embedding is compared with those of the others")(
      "a-flag-with-a-long-name", po::value<std::string>()->value_name("FOLDER"), "far away")("help,h",
                                                                                             "this text");
  return out;
}

constexpr const char* kProse = R"(usage: kinora search DIR TEXT [options]

Finds clips. These two lines are one paragraph, which is
as wide as the terminal.

examples:
  kinora search runs/a "a cat"                     clips of a cat, the nearest first, of which there may be few
                                                   or none
  kinora search runs/b \
      --top 3
  a-name-alone
                what it means, below it
  kinora search runs/a --like a-very-long-name-of-a-clip-0001 --top 100 --json --out somewhere

)";

TEST(Flags, AreRowsWithoutADialect) {
  EXPECT_EQ(flags_text(search(), 80),
            "  -k, --top N  best matches to print (default 10)\n"
            "  --share S    at most 1 (default 0.05)\n"
            "  --like CLIP  a clip in place of a text; its own embedding is compared with\n"
            "               those of the others\n"
            "  --a-flag-with-a-long-name FOLDER\n"
            "      far away\n"
            "  -h, --help   this text\n");
}

TEST(Flags, AHelpIsAsWideAsTheTerminal) {
  const std::string wide = help_of(kProse, search(), 100), narrow = help_of(kProse, search(), 60);
  EXPECT_THAT(
      wide,
      HasSubstr("\n\nFinds clips. These two lines are one paragraph, which is as wide as the terminal.\n"));
  EXPECT_THAT(
      wide,
      HasSubstr("  kinora search runs/a \"a cat\"                     clips of a cat, the nearest first, "
                "of which there\n                                                   may be few or none\n"));
  EXPECT_THAT(narrow, HasSubstr("  kinora search runs/a \"a cat\"\n"
                                "      clips of a cat, the nearest first, of which there may\n"
                                "      be few or none\n"));
  EXPECT_THAT(
      narrow,
      HasSubstr("\n  kinora search runs/a --like a-very-long-name-of-a-clip-0001 --top 100 --json --out "
                "somewhere\n"))
      << "a command stays one line";
  EXPECT_THAT(
      narrow,
      HasSubstr("  kinora search runs/b \\\n      --top 3\n  a-name-alone  what it means, below it\n"));
  EXPECT_THAT(wide, HasSubstr("\n\noptions:\n  -k, --top N"));
}

}  // namespace
}  // namespace kinora
