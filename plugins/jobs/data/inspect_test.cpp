#include "plugins/jobs/data/inspect.hpp"

#include <gmock/gmock.h>

#include "plugins/jobs/data/data_testing.hpp"
#include "plugins/jobs/data/preview.hpp"

namespace kinora::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

class Inspect : public DataTest {};

TEST_F(Inspect, CountsFieldsFactsAndCaptions) {
  write("a.tar", test::tar_bytes({{"k0.json", R"({"fps": 24, "tags": []})"},
                                  {"k0.txt", "caf\xC3\xA9"},
                                  {"k1.json", R"({"fps": 23.976})"},
                                  {"k1.txt", ""},
                                  {"k2.mp4", "12345"}}));
  const Overview all = inspect_folder(find_shards(root), 2);
  EXPECT_EQ(all.samples, 3u);
  EXPECT_THAT(all.keys, ElementsAre("k0", "k1", "k2"));
  EXPECT_EQ(all.fields.at("mp4").median, 5u);
  EXPECT_EQ(all.fields.at("txt").count, 2u);
  EXPECT_EQ(all.fields.at("txt").max, 5u);
  EXPECT_THAT(all.facts.at("fps"), ElementsAre(Pair("integer", 1), Pair("number", 1)));
  EXPECT_THAT(all.facts.at("tags"), ElementsAre(Pair("array", 1)));
  EXPECT_EQ(all.captions.max, 4u) << "characters, not bytes";
  EXPECT_THAT(all.index, HasSubstr("none"));
  index();
  EXPECT_EQ(inspect_folder(find_shards(root), 2).index, "current");
  write("b.tar", shard("b", 1));
  EXPECT_THAT(inspect_folder(find_shards(root), 2).index, HasSubstr("1 of 2 shards"));
}

TEST(Spread, HasTheMiddle) {
  std::vector<uint64_t> numbers{9, 1, 5, 7, 3};
  const Spread s = spread_of(numbers);
  EXPECT_EQ(s.min, 1u);
  EXPECT_EQ(s.median, 5u);
  EXPECT_EQ(s.max, 9u);
}

class Preview : public DataTest {};

TEST_F(Preview, ShowsSamplesOfAllShardsAndEscapesTheirText) {
  write("a.tar", test::tar_bytes({{"<script>alert(1)<|script>.txt", "a & \"b\" 'c' \xff\x01"},
                                  {"<script>alert(1)<|script>.png", "picture"}}));
  write("b.tar", shard("b", 5));
  const DataFolder folder = find_shards(root);
  const auto cards = cards_of(folder, 4, [](const std::string&, std::vector<uint8_t> bytes) {
    EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "picture");
    return Picture{.jpeg = "\xFF\xD8\xFF", .reason = "", .width = 64, .height = 48, .seconds = 2.5};
  });
  ASSERT_EQ(cards.size(), 3u) << "one of a.tar, which has no more, and two of b.tar";
  const std::string page = preview_page(folder, cards);
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)"));
  EXPECT_THAT(page, HasSubstr("a &amp; &quot;b&quot; &#39;c&#39; \uFFFD\uFFFD"));
  EXPECT_THAT(page, HasSubstr("src=\"data:image/jpeg;base64,/9j/\""));
  EXPECT_THAT(page, HasSubstr("64 × 48 · 2.5 s · png"));
  EXPECT_THAT(page, HasSubstr("No picture: no video and no picture"));
  EXPECT_THAT(page, Not(HasSubstr("http://")));
}

}  // namespace
}  // namespace kinora::data
