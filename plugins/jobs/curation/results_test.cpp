// Tests what a curate job reports of its work, and what people and later jobs decide about its clips.
#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"
#include "plugins/jobs/curation/clip_files.hpp"
#include "plugins/jobs/curation/drops.hpp"
#include "plugins/jobs/curation/items.hpp"
#include "plugins/jobs/curation/manifest.hpp"
#include "plugins/jobs/listing/csv_table.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class Results : public testing::Test {
 protected:
  Results() : folder_(fs::path(testing::TempDir()) / ("results-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Results() override { fs::remove_all(folder_); }
  fs::path put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  fs::path folder_;
};

const json kVideo{{"key", "f"},
                  {"end", "kept"},
                  {"consumed", true},
                  {"stage", "clip.transcode"},
                  {"url", "/x/f.mp4"},
                  {"facts", {{"sha256", "ab"}, {"duration_s", 9.0}}},
                  {"shots", {{"fps", 25.0}, {"frames", 250}}}};
const json kClip{{"key", "f-0000"},
                 {"end", "kept"},
                 {"caption", "A \"boat\", at sea."},
                 {"parent", "f"},
                 {"facts",
                  {{"film", "f"},
                   {"start_s", 0.0},
                   {"end_s", 4.0},
                   {"duration_s", 4.0},
                   {"scores", {{"filter.blur", 7.5}}},
                   {"user", {{"n", 3}}}}}};
const json kDropped{{"key", "f-0001"},         {"end", "filtered"}, {"stage", "filter.blur"},
                    {"reason", "filter.blur"}, {"score", 0.5},      {"parent", "f"},
                    {"facts", {{"film", "f"}}}};

TEST_F(Results, AddUp) {
  Totals totals;
  totals.add(kVideo, false, json::object());
  totals.add(kClip, true, {{"f-0000.mp4", 100}, {"f-0000.txt", 5}});
  totals.add(kDropped, true, json::object());
  const auto used = [](const char* end, int64_t requests, double cost) -> json {
    return {
        {"key", "u"},
        {"end", end},
        {"facts", {{"usage", {{"caption.endpoint", {{"requests", requests}, {"cost", cost}}}, {"odd", 3}}}}}};
  };
  Totals paid;
  paid.add(used("kept", 2, 0.25), true, json::object()),
      paid.add(used("failed", 1, 0.5), true, json::object());
  EXPECT_EQ(paid.summary()["usage"], (json{{"caption.endpoint", {{"requests", 3}, {"cost", 0.75}}}}));
  EXPECT_THAT(paid.summary()["usage_of"].get<std::string>(), testing::StartsWith("all runs"));
  EXPECT_FALSE(totals.summary().contains("usage") || totals.summary().contains("usage_of"));
  const json s = totals.summary();
  EXPECT_EQ(s["inputs"], 1);
  EXPECT_EQ(s["clips"], (json{{"kept", 1}, {"filtered", 1}, {"failed", 0}}));
  EXPECT_EQ(s["rules"], (json{{"filter.blur", 1}}));
  EXPECT_EQ(
      s["outcomes"]["clips"],
      (json::array({{{"end", "filtered"}, {"stage", "filter.blur"}, {"rule", "filter.blur"}, {"count", 1}},
                    {{"end", "kept"}, {"count", 1}}})));
  EXPECT_EQ(s["film_seconds"], 10.0);  // counted frames, not the header's value
  EXPECT_EQ(s["clip_seconds"], 4.0);
  EXPECT_EQ(s["bytes_kept"], 105);
}

TEST_F(Results, NameTheFirstThatFailedAndWhatToDo) {
  const auto failed = [](const char* key, const char* url, const char* reason) {
    json line{{"key", key}, {"end", "failed"}, {"reason", reason}, {"facts", json::object()}};
    if (*url) line["url"] = url;
    return line;
  };
  Totals clips;
  EXPECT_EQ(clips.failures_text(), "");
  clips.add(failed("f-0001", "", "no server answers"), true, json::object());
  EXPECT_EQ(clips.failures_text(), "f-0001 failed (no server answers); run again with --retry-failed");
  Totals both = clips;
  both.add(failed("f", "/x/f.mp4", "f.mp4: cut off"), false, json::object());
  EXPECT_EQ(both.failures_text(),
            "f.mp4 failed (cut off), and 1 more; replace them, or run again with --retry-failed");
  Totals one;
  one.add(failed("f", "/x/f.mp4", "the decoder failed"), false, json::object());
  one.add(failed("f-0001", "", "later"), true, json::object());
  EXPECT_EQ(one.first_failure(false), "the decoder failed");
  Totals video;
  video.add(failed("f", "/x/f.mp4", "f.mp4: cut off"), false, json::object());
  EXPECT_EQ(video.failures_text(), "f.mp4 failed (cut off); replace it, or run again with --retry-failed");
}

TEST_F(Results, AVideoOfVariableRateIsAsLongAsItsFramesAreShown) {
  json video = kVideo;
  video["shots"]["end_us"] = 14'500'000;
  Totals totals;
  totals.add(video, false, json::object());
  EXPECT_EQ(totals.summary()["film_seconds"], 14.5);
}

TEST_F(Results, AreInBothManifests) {
  {
    ManifestWriter writer(folder_, {"licence", "n"});
    writer.add(kVideo, false), writer.add(kClip, true), writer.add(kDropped, true);
    EXPECT_FALSE(fs::exists(folder_ / "manifest.csv"));
    writer.commit();
  }
  std::ifstream in(folder_ / "manifest.jsonl");
  std::vector<json> lines;
  for (std::string text; std::getline(in, text);) lines.push_back(json::parse(text));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], (json{{"key", "f"},
                            {"film", ""},
                            {"url", "/x/f.mp4"},
                            {"sha256", "ab"},
                            {"outcome", "kept"},
                            {"stage", "clip.transcode"}}));
  EXPECT_EQ(lines[1], (json{{"key", "f-0000"},
                            {"film", "f"},
                            {"url", "/x/f.mp4"},
                            {"sha256", "ab"},
                            {"start", 0.0},
                            {"end", 4.0},
                            {"caption", "A \"boat\", at sea."},
                            {"outcome", "kept"},
                            {"scores", {{"filter.blur", 7.5}}},
                            {"user.n", 3}}));
  std::ifstream csv(folder_ / "manifest.csv", std::ios::binary);
  std::vector<std::vector<std::string>> rows;
  const std::string text{std::istreambuf_iterator<char>(csv), {}};
  read_csv(
      text, [&](size_t, std::vector<std::string> row) { rows.push_back(row); },
      [](size_t number, const std::string& why) { ADD_FAILURE() << number << why; });
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_THAT(rows[2], ElementsAre("f-0000", "f", "/x/f.mp4", "ab", "0.0", "4.0", "A \"boat\", at sea.",
                                   "kept", "", "", "", "{\"filter.blur\":7.5}", "", "3"));
  EXPECT_THAT(rows[0].back(), "user.n");
  EXPECT_THAT(rows[3][9], "filter.blur");
}

TEST_F(Results, FollowTheLastEditAndAPersonBeforeARule) {
  const auto edits = read_edits(
      put("edits.jsonl",
          "{\"key\":\"a\",\"author\":\"x\",\"set\":{\"caption\":\"one\",\"keep\":false}}\n"
          "{\"key\":\"a\",\"author\":\"y\",\"set\":{\"caption\":\"two\"}}\n\n"
          "{\"key\":\"b\",\"set\":{\"keep\":false,\"reason\":\"logo\"}}\n{\"key\":\"b\",\"set\":{\"keep\":"
          "null,\"reason\":null}}\n"
          "{\"key\":\"c\",\"set\":{\"keep\":true}}\n{\"key\":\"a\",\"set\":{\"cap"));  // the writer was
                                                                                       // killed here
  ASSERT_EQ(edits.edited().size(), 2u);  // no edits of b are left
  EXPECT_EQ(edits.now("a").caption, "two");
  EXPECT_EQ(edits.now("a").author, "y");
  auto drops = drops_in(
      put("decisions.jsonl",
          "{\"key\":\"c\",\"end\":\"filtered\",\"rule\":\"dedup.semantic\",\"score\":0.99,\"of\":\"d\"}\n"
          "{\"key\":\"d\",\"end\":\"kept\"}\n{\"key\":\"e\",\"end\":\"filtered\",\"rule\":\"dedup.exact\","
          "\"score\":1,\"of\":\"d\"}\n"));
  EXPECT_EQ(drops.size(), 2u);
  apply_edits(edits, drops);
  ASSERT_EQ(drops.size(), 2u);
  EXPECT_EQ(drops.at("a").rule, "studio.reject");
  EXPECT_EQ(drops.at("e").of, "d");
  for (const char* bad : {"{\"set\":{}}\n", "[]\n", "{\"key\":\"a\",\"set\":{\"keep\":1}}\n"}) {
    try {
      read_edits(put("bad.jsonl", std::string("\n") + bad));
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("bad.jsonl: line 2: "));
    }
  }
}

TEST_F(Results, TakeNoEditOfOtherFootage) {
  const auto file =
      put("edits.jsonl",
          "{\"key\":\"a\",\"of\":{\"sha256\":\"x\",\"first_frame\":0,\"end_frame\":50},\"set\":{\"caption\":"
          "\"other frames\",\"keep\":false}}\n"
          "{\"key\":\"a\",\"of\":{\"sha256\":\"y\",\"first_frame\":0,\"end_frame\":60},\"set\":{\"caption\":"
          "\"other video\"}}\n"
          "{\"key\":\"a\",\"of\":{\"first_frame\":0,\"end_frame\":60},\"set\":{\"reason\":\"mine\"}}\n"
          "{\"key\":\"b\",\"set\":{\"caption\":\"of "
          "anything\"}}\n{\"key\":\"gone\",\"of\":{\"sha256\":\"x\"},\"set\":{\"keep\":true}}\n");
  const json facts{{"sha256", "x"}, {"first_frame", 0}, {"end_frame", 60}, {"height", 120}};
  const auto read = read_edits(
      file, Footage{[&](const std::string& key) { return key == "gone" ? json() : subject_of(facts); }});
  EXPECT_EQ(read.of_others().size(), 2u);
  EXPECT_EQ(read.now("a").caption, std::nullopt);
  EXPECT_EQ(read.now("a").keep, std::nullopt);
  EXPECT_EQ(read.now("a").reason, "mine");
  EXPECT_EQ(read.now("b").caption, "of anything");
  EXPECT_EQ(read.now("gone").keep, true) << "no clip has the key: counted as unused, not as another clip's";
  EXPECT_EQ(read_edits(file).now("a").caption, "other video");
}

TEST(Bins, AreThoseOfCosmos) {
  const auto bin = [](double w, double h, double s) {
    return bin_of({{"width", w}, {"height", h}, {"duration_s", s}});
  };
  EXPECT_EQ(bin(1280, 720, 5), "resolution_720/aspect_ratio_16_9/duration_5_10");
  EXPECT_EQ(bin(1080, 1920, 10.1), "resolution_1080/aspect_ratio_9_16/duration_10_30");
  EXPECT_EQ(bin(640, 480, 4.9), "resolution_lt_720/aspect_ratio_4_3/duration_0_5");
  EXPECT_EQ(bin(155, 100, 31),
            "resolution_lt_720/aspect_ratio_4_3/duration_30_inf");  // the upper edge is included
  EXPECT_EQ(bin(65, 100, 6), "resolution_lt_720/aspect_ratio_9_16/duration_5_10");
  EXPECT_EQ(bin(1100, 100, 6), "resolution_lt_720/aspect_ratio_other/duration_5_10");
  EXPECT_EQ(bin_of({{"width", 10}}), "");
  EXPECT_EQ(bin_of({{"width", 720}, {"height", 720}, {"picture", "jpg"}}),
            "resolution_720/aspect_ratio_1_1/picture");
  EXPECT_EQ(bin_of({{"width", 10},
                    {"height", 10},
                    {"duration_s", 6},
                    {"bin", {{"resolution", "../720"}, {"aspect", "3_4"}}}}),
            "resolution_lt_720/aspect_ratio_3_4/duration_5_10");
}

}  // namespace
}  // namespace kinora::core
