#include "plugins/jobs/data/inspect.hpp"

#include <gmock/gmock.h>

#include "plugins/jobs/data/data_testing.hpp"
#include "plugins/jobs/data/preview.hpp"
#include "plugins/jobs/data/record.hpp"
#include "plugins/jobs/data/webp.hpp"
#include "plugins/jobs/data/webp_testing.hpp"

namespace kinora::data {
namespace {

using ::testing::AllOf;
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

TEST_F(Inspect, SaysWhoWroteAnIndexThatDataIndexDidNot) {
  write("a.tar", shard("a", 1));
  index();
  fs::remove(root / ".nv-meta" / kIndexRecord);
  EXPECT_THAT(inspect_folder(find_shards(root), 1).index, HasSubstr("written by another program"));
  write("job.json", R"({"kind": "shard", "name": "shards"})");
  EXPECT_THAT(inspect_folder(find_shards(root), 1).index, HasSubstr("written by the shard job"));
}

TEST_F(Inspect, SaysWhereAShardEndsEarlyAndHowManySamplesAreWhole) {
  write("a.tar", shard("a", 2));
  write("cut.tar", shard("c", 4).substr(0, 3 * 2048 + 700));  // in c3
  write("short.tar", shard("d", 1).substr(0, 600));           // its first header is whole
  const Overview all = inspect_folder(find_shards(root), 2);
  EXPECT_EQ(all.samples, 2u + 3);
  ASSERT_EQ(all.problems.size(), 2u);
  EXPECT_THAT(
      all.problems[0],
      AllOf(HasSubstr("cut.tar: after 'c2' at 6844: "), HasSubstr("; copy it again"),
            HasSubstr(
                " (3 whole samples before it and 'c3', which may lack fields; the file has 6844 bytes)")));
  EXPECT_THAT(
      all.problems[1],
      AllOf(
          HasSubstr("short.tar: at 600: "),
          HasSubstr(" (0 whole samples before it and 'd0', which may lack fields; the file has 600 bytes)")));
}

TEST_F(Inspect, NamesTheSamplesWhoseJsonIsBroken) {
  write("a.tar", test::tar_bytes({{"k0.json", "{}"},
                                  {"k0.txt", "1"},
                                  {"k1.json", "{\"n\": 1,,}"},
                                  {"k1.txt", "1"},
                                  {"k2.json", "[1]"}}));
  const Overview all = inspect_folder(find_shards(root), 1);
  EXPECT_THAT(all.problems, ElementsAre("a.tar: k1 at 2048: the field json is not JSON; write it again"));
  EXPECT_EQ(all.captions.count, 2u) << "the other fields of the sample count";
}

TEST(Spread, HasTheMiddle) {
  std::vector<uint64_t> numbers{9, 1, 5, 7, 3};
  const Spread s = spread_of(numbers);
  EXPECT_EQ(s.min, 1u);
  EXPECT_EQ(s.median, 5u);
  EXPECT_EQ(s.max, 9u);
}

class Preview : public DataTest {
 protected:
  // Lines of problems go to `lines`.
  std::vector<Card> cards(uint64_t limit, const MakePicture& make) {
    return cards_of(find_shards(root), limit, make, [&](const Problem& p) { lines.push_back(p.line()); });
  }
};

TEST_F(Preview, ShowsSamplesOfAllShardsAndEscapesTheirText) {
  write("a.tar", test::tar_bytes({{"<script>alert(1)<|script>.txt", "a & \"b\" 'c' \x81\x01"},
                                  {"<script>alert(1)<|script>.png", "picture"}}));
  write("b.tar", shard("b", 5));
  const DataFolder folder = find_shards(root);
  const auto shown = cards(4, [](const std::string&, const std::string& field, std::vector<uint8_t> bytes) {
    EXPECT_EQ(field, "png");
    EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "picture");
    return Picture{.jpeg = "\xFF\xD8\xFF", .reason = "", .width = 64, .height = 48, .seconds = 2.5};
  });
  ASSERT_EQ(shown.size(), 3u) << "one of a.tar, which has no more, and two of b.tar";
  EXPECT_TRUE(lines.empty());
  const std::string page = preview_page(folder, shown);
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)"));
  EXPECT_THAT(page, HasSubstr("a &amp; &quot;b&quot; &#39;c&#39; \uFFFD\uFFFD"));
  EXPECT_THAT(page, HasSubstr("src=\"data:image/jpeg;base64,/9j/\""));
  EXPECT_THAT(page, HasSubstr("64 × 48 · 2.5\u00A0s · png"));
  EXPECT_THAT(page, HasSubstr("No picture: no video and no picture"));
  EXPECT_THAT(page, Not(HasSubstr("http://")));
}

// Its size and length are those that its facts give; a preview that is none is as if it were not there.
TEST_F(Preview, MovesWherePreviewsAreThereAndDecodesNothing) {
  const std::string preview = test::tiny_preview();
  write("a.tar", test::tar_bytes({{"a.json", R"({"width": 640, "height": 360, "duration_s": 1.25})"},
                                  {"a.mp4", "not decoded"},
                                  {"a.preview.webp", preview},
                                  {"b.mp4", "decoded"},
                                  {"b.preview.webp", preview.substr(0, 90)}}));
  std::vector<std::string> decoded;
  const auto shown = cards(4, [&](const std::string& key, const std::string& field, std::vector<uint8_t>) {
    decoded.push_back(key + "." + field);
    return Picture{.jpeg = "\xFF\xD8\xFF", .reason = ""};
  });
  EXPECT_THAT(decoded, ElementsAre("b.mp4"));
  ASSERT_EQ(shown.size(), 2u);
  EXPECT_EQ(shown[0].preview, preview);
  EXPECT_EQ(shown[0].still, core::webp_preview(preview)->still);
  const std::string page = preview_page(find_shards(root), shown);
  EXPECT_THAT(page, HasSubstr("640 × 360 · 1.3\u00A0s · mp4"));
  EXPECT_THAT(page, HasSubstr("class=\"moving\" alt=\"Preview of a\" src=\"data:image/webp;base64,"));
  EXPECT_THAT(page, HasSubstr("class=\"frames\" alt=\"Frames of b\" src=\"data:image/jpeg;base64,"));
  EXPECT_THAT(page, HasSubstr("prefers-reduced-motion: reduce"));
  EXPECT_THAT(page, HasSubstr("> Stand still</label>"));
  EXPECT_THAT(preview_page(find_shards(root), {}), Not(HasSubstr("> Stand still</label>")));
}

TEST_F(Preview, NamesDamageAndBrokenJsonAmongItsSamples) {
  write("a.tar", shard("a", 4).substr(0, 2048 + 700));  // in a1
  write("b.tar", test::tar_bytes({{"k.json", "{"}, {"k.txt", "a caption"}}));
  const auto shown = cards(10, {});
  ASSERT_EQ(shown.size(), 2u);
  EXPECT_EQ(shown[1].caption, "a caption");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(
      lines[0],
      AllOf(
          HasSubstr("a.tar: after 'a0' at 2748: "),
          HasSubstr(" (1 whole sample before it and 'a1', which may lack fields; the file has 2748 bytes)")));
  EXPECT_EQ(lines[1], "b.tar: k at 0: the field json is not JSON; write it again");
}

}  // namespace
}  // namespace kinora::data
