#include "plugins/jobs/data/split_file.hpp"

#include <gmock/gmock.h>

namespace kinora::data {
namespace {

constexpr const char* kPlain =
    "split_parts:\n"
    "  train:\n"
    "  - s-{000..001}.tar\n"
    "  - a b/s-002.tar\n"
    "  held out: []\n"
    "exclude:\n"
    "- s-000.tar/it's\n";

TEST(SplitFile, ReadsTheStylesOfOneContent) {
  const char* const texts[] = {
      kPlain,
      // As PyYAML writes it.
      "exclude:\n- s-000.tar/it's\nsplit_parts:\n  train:\n  - s-{000..001}.tar\n  - a b/s-002.tar\n  held "
      "out: []\n",
      "---\r\n# shards\r\nsplit_parts:  # by hand\r\n    train:\r\n        - 's-{000..001}.tar'\r\n"
      "        - \"a b/s-002.tar\" # one\r\n\r\n    'held out': [ ]\r\nexclude: ['s-000.tar/it''s']\r\n",
      "exclude: [s-000.tar/it's]\nsplit_parts:\n train: ['s-{000..001}.tar', a b/s-002.tar]\n held out:\n",
  };
  for (const char* text : texts) {
    const auto split = read_split(text);
    ASSERT_TRUE(split) << text;
    EXPECT_EQ(split_text(*split), kPlain) << text;
  }
}

TEST(SplitFile, WritesNamesThatItReads) {
  const SplitFile split{{{"t", {"a: b.tar", "a #b.tar", "'q'.tar", "-.tar", "{a,b}.tar"}}},
                        {"s.tar/k:", "s.tar/k "}};
  const auto read = read_split(split_text(split));
  ASSERT_TRUE(read) << split_text(split);
  EXPECT_EQ(read->parts, split.parts);
  EXPECT_EQ(read->exclude, split.exclude);
}

TEST(SplitFile, IsLeftAloneIfItHasAnythingElse) {
  for (const char* text :
       {"", "theirs", "exclude: []\n", "split_parts: [a.tar]\n", "split_parts:\n- a.tar\n",
        "  train:\n  - a.tar\n", "more: 1\nsplit_parts: {}\n", "split_parts:\n  train: *all\n",
        "split_parts:\n  train:\n  - {a: b}\n", "split_parts:\n  train:\n  - a: b\n",
        "split_parts:\n  train:\n  - a.tar\n    b.tar\n", "split_parts:\n  train:\n  - 'a.tar\n",
        "split_parts:\n  train:\n  - \"a\\n.tar\"\n", "split_parts:\n  train: [a.tar\n",
        "split_parts:\n  train:\n  - s-{1.tar\n", "split_parts:\n  train:\n  - s-{0..99999999999}.tar\n"})
    EXPECT_FALSE(read_split(text)) << text;
}

TEST(SplitFile, OfAnyBytesIsReadOrLeftAlone) {
  const std::string whole = kPlain;
  for (size_t at = 0; at < whole.size(); ++at)
    for (const char c : {'\0', '\n', ' ', '\'', '[', ']', ':', '{', '-', '#', '\xff'}) {
      std::string text = whole;
      text[at] = c;
      read_split(text);
      read_split(std::string_view(whole).substr(0, at));
    }
}

TEST(SplitFile, LosesWhatIsGoneAndGetsWhatIsNew) {
  SplitFile split{{{"test", {"s-003.tar", "gone.tar"}}, {"train", {"s-{000..002}.tar", "t-{0..1}.tar"}}},
                  {"s-000.tar/deep/key", "s-001.tar", "s-001.tar/key", "s-006.tar"}};
  const std::vector<energon::ShardInfo> shards = {{"s-000.tar", 2}, {"s-002.tar", 2}, {"s-003.tar", 0},
                                                  {"s-004.tar", 2}, {"s-005.tar", 0}, {"s-006.tar", 2},
                                                  {"s-007.tar", 2}, {"t-0.tar", 1},   {"t-1.tar", 1}};
  const auto change = adapt(split, shards, [](const std::string& name) { return name != "s-007.tar"; });
  EXPECT_EQ(split_text(split),
            "split_parts:\n"
            "  test:\n"
            "  - s-003.tar\n"
            "  train:\n"
            "  - s-000.tar\n"
            "  - s-002.tar\n"
            "  - t-{0..1}.tar\n"
            "  - s-004.tar\n"
            "exclude:\n"
            "- s-000.tar/deep/key\n"
            "- s-006.tar\n");
  EXPECT_EQ(change.gone, 4u) << "gone.tar, s-001.tar twice, and its key";
  EXPECT_EQ(change.added, 1u) << "s-005.tar has no samples, and s-006.tar is excluded";
  EXPECT_EQ(change.unnamed, 1u) << "s-007.tar was left out before";
  EXPECT_EQ(change.part, "train");
  SplitFile none;
  adapt(none, {{"a.tar", 1}}, [](const std::string&) { return true; });
  EXPECT_EQ(split_text(none), "split_parts:\n  train:\n  - a.tar\nexclude: []\n");
}

}  // namespace
}  // namespace kinora::data
