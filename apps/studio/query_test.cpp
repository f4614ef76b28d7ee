#include "apps/studio/query.hpp"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"

namespace kinora::studio {
namespace {

using testing::ElementsAre;

Catalogue catalogue_of(const std::vector<Clip>& clips,
                       std::map<std::string, std::vector<double>> columns = {}) {
  Catalogue out;
  out.jobs = {{"job", "/none"}};
  out.clips = clips;
  for (size_t i = 0; i < clips.size(); ++i) {
    out.clips[i].id = "job/" + clips[i].key;
    out.by_id[out.clips[i].id] = i;
  }
  out.columns = std::move(columns);
  return out;
}

Clip clip(const std::string& key, End end = End::kept, const std::string& reason = "",
          const std::string& caption = "") {
  Clip out;
  out.key = key;
  out.end = end;
  out.reason = reason;
  out.caption = caption;
  return out;
}

QueryScope shelf_of(const Catalogue& c, std::map<std::string, Change> edits = {}) {
  return {c, [edits](const Clip& clip) {
            const auto at = edits.find(clip.key);
            return at == edits.end() ? Change() : at->second;
          }};
}

Query query(std::multimap<std::string, std::string> parameters) { return parse_query(parameters); }

TEST(Query, EachConditionSelects) {
  std::vector<Clip> clips{clip("a"), clip("b", End::filtered, "filter.blur"),
                          clip("c", End::filtered, "filter.motion"), clip("d", End::failed, "cannot be read"),
                          clip("e")};
  clips.push_back(clip("f"));
  clips.back().consumed = true;
  const Catalogue c = catalogue_of(clips, {{"duration_s", {1, 2, 3, NAN, 5, NAN}}});
  const QueryScope scope = shelf_of(c, {{"a", {std::nullopt, "x", false}},
                                        {"b", {std::nullopt, std::nullopt, true}},
                                        {"e", {"new", std::nullopt, std::nullopt}}});
  EXPECT_THAT(select(scope, {}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(select(scope, query({{"end", "kept"}})), ElementsAre(0, 4));
  EXPECT_THAT(select(scope, query({{"end", "filtered"}, {"end", "failed"}})), ElementsAre(1, 2, 3));
  EXPECT_THAT(select(scope, query({{"rule", "filter.blur"}})), ElementsAre(1));
  EXPECT_THAT(select(scope, query({{"decision", "rejected"}})), ElementsAre(0));
  EXPECT_THAT(select(scope, query({{"decision", "accepted"}, {"decision", "captioned"}})), ElementsAre(1, 4));
  EXPECT_THAT(select(scope, query({{"decision", "open"}})), ElementsAre(2, 3));
  EXPECT_THAT(select(scope, query({{"range", "duration_s:2:3"}})), ElementsAre(1));     // below 3
  EXPECT_THAT(select(scope, query({{"range", "duration_s:3:5"}})), ElementsAre(2, 4));  // 5 is the largest
  EXPECT_THAT(select(scope, query({{"range", "no_such:0:9"}})), ElementsAre());
  EXPECT_THAT(select(scope, query({{"sort", "duration_s"}, {"desc", "1"}})), ElementsAre(4, 2, 1, 0, 3));
  EXPECT_THAT(select(scope, query({{"sort", "key"}, {"desc", "1"}})), ElementsAre(4, 3, 2, 1, 0));
  EXPECT_THROW((void)select(scope, query({{"sort", "no_such"}})), Error);
  const Counts counts = counts_of(scope);
  EXPECT_EQ(counts.ends, (std::map<std::string, int64_t>{{"kept", 2}, {"filtered", 2}, {"failed", 1}}));
  EXPECT_EQ(counts.rules, (std::map<std::string, int64_t>{{"filter.blur", 1}, {"filter.motion", 1}}));
  EXPECT_EQ(counts.decisions, (std::map<std::string, int64_t>{
                                  {"accepted", 1}, {"rejected", 1}, {"captioned", 1}, {"open", 2}}));
}

TEST(Query, TagsOfTheJobAndOfPeopleSelectAndAreCounted) {
  std::vector<Clip> clips{clip("a"), clip("b"), clip("c"), clip("d")};
  clips[0].tags = {"sea"};
  clips[1].tags = {"sea", "calm"};
  const Catalogue c = catalogue_of(clips);
  const QueryScope scope =
      shelf_of(c, {{"b", {std::nullopt, std::nullopt, std::nullopt, core::Tags{"night"}}},
                   {"c", {std::nullopt, std::nullopt, std::nullopt, core::Tags{"calm", "sea"}}}});
  EXPECT_THAT(select(scope, query({{"tag", "sea"}})), ElementsAre(0, 2));
  EXPECT_THAT(select(scope, query({{"tag", "night"}, {"tag", "calm"}})), ElementsAre(1, 2));
  EXPECT_EQ(counts_of(scope).tags, (std::map<std::string, int64_t>{{"sea", 2}, {"calm", 1}, {"night", 1}}));
}

TEST(Query, ValuesOfFacetsAreCountedWithoutCopies) {
  std::vector<Clip> clips{clip("a"), clip("b"), clip("c"), clip("d"), clip("e")};
  clips[0].is_video = true;
  clips[1].copy_rule = clips[2].copy_rule = "dedup.semantic";
  Catalogue c = catalogue_of(clips);
  c.facets["set"] = {{"train", "val", "test"}, {1, 1, 2, 2, 0}, false};
  c.facets["sha256"] = {{}, {}, true};
  const QueryScope scope = shelf_of(c, {{"c", {std::nullopt, std::nullopt, true}}});
  using Values = std::map<std::string, std::map<std::string, int64_t>>;
  EXPECT_EQ(counts_of(scope).facets, (Values{{"set", {{"train", 1}, {"val", 2}}}})) << "c is accepted";
  EXPECT_EQ(counts_of(scope, Kind::video).facets, (Values{{"set", {{"train", 1}}}}));
}

TEST(Query, CopiesAreHiddenUnlessAskedFor) {
  std::vector<Clip> clips{clip("a"), clip("b"), clip("c"), clip("d", End::filtered, "r"),
                          clip("film", End::failed)};
  for (const size_t copy : {1U, 2U}) clips[copy].copy_of = "a", clips[copy].copy_rule = "dedup.exact";
  clips[4].is_video = true;
  const Catalogue c = catalogue_of(clips);
  const Found found{{2, 1, 0}, {0.1, 0.2, 0.9, NAN, NAN}};
  QueryScope scope = shelf_of(c);
  EXPECT_THAT(select(scope, {}), ElementsAre(0, 3, 4));
  EXPECT_THAT(select(scope, query({{"copies", "1"}})), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(select(scope, query({{"end", "copy"}})), ElementsAre(1, 2));
  EXPECT_THAT(select(scope, query({{"end", "kept"}})), ElementsAre(0));
  EXPECT_THAT(select(scope, query({{"rule", "dedup.exact"}})), ElementsAre(1, 2));
  EXPECT_THAT(select(scope, query({{"rule", "r"}})), ElementsAre(3));
  EXPECT_THAT(select(shelf_of(c, {{"b", {std::nullopt, std::nullopt, true}}}), {}), ElementsAre(0, 1, 3, 4));
  scope.found = &found;
  EXPECT_THAT(select(scope, query({{"q", "boat"}})), ElementsAre(0));
  EXPECT_THAT(select(scope, query({{"q", "boat"}, {"copies", "1"}})), ElementsAre(2, 1, 0));
  EXPECT_THAT(select(scope, query({{"like", "job/c"}})), ElementsAre(2, 0)) << "the clip itself is included";
  const Counts all = counts_of(scope), videos = counts_of(scope, Kind::video);
  EXPECT_EQ(all.ends,
            (std::map<std::string, int64_t>{{"kept", 1}, {"copy", 2}, {"filtered", 1}, {"failed", 1}}));
  EXPECT_EQ(all.rules, (std::map<std::string, int64_t>{{"dedup.exact", 2}, {"r", 1}}));
  EXPECT_EQ(all.decisions, (std::map<std::string, int64_t>{{"open", 3}}));
  EXPECT_EQ(videos.ends, (std::map<std::string, int64_t>{{"failed", 1}}));
}

TEST(Query, KindsAreInputVideosWithThoseThatWereCutAndClipsWithCopies) {
  std::vector<Clip> clips{clip("cut"), clip("broken", End::failed), clip("a"), clip("copy"), clip("cut too")};
  for (const size_t video : {0U, 1U, 4U}) clips[video].is_video = true;
  clips[0].consumed = clips[4].consumed = true;
  clips[3].copy_rule = "dedup.exact";
  const Catalogue c = catalogue_of(clips);
  const QueryScope scope = shelf_of(c);
  EXPECT_THAT(select(scope, {}), ElementsAre(1, 2));
  EXPECT_THAT(select(scope, query({{"kind", "video"}})), ElementsAre(0, 1, 4));
  EXPECT_THAT(select(scope, query({{"kind", "clip"}})), ElementsAre(2, 3));
  EXPECT_THAT(select(scope, query({{"kind", "clip"}, {"kind", "video"}})), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(select(scope, query({{"kind", "video"}, {"end", "failed"}})), ElementsAre(1));
  EXPECT_EQ(next_to_review(scope, {0, 1}, 0), -1) << "a video that was cut is not reviewed";
}

TEST(Query, TheReviewIsOfWhatIsKeptAndOfWhatPeopleHaveDecidedAbout) {
  std::vector<Clip> clips{clip("a"),       clip("b", End::filtered, "r"),
                          clip("c"),       clip("d", End::filtered, "r"),
                          clip("e"),       clip("copy"),
                          clip("left out")};
  clips[5].copy_rule = "dedup.exact";
  clips[6].is_chosen = false;
  const Catalogue c = catalogue_of(clips);
  const QueryScope scope = shelf_of(c, {{"a", {std::nullopt, std::nullopt, true}},
                                        {"b", {std::nullopt, std::nullopt, true}},
                                        {"c", {"only a caption", std::nullopt, std::nullopt}}});
  const Counts counts = counts_of(scope);
  EXPECT_EQ(counts.to_review, 4) << "a, b, c, e";
  EXPECT_EQ(counts.accepted, 2);
  EXPECT_EQ(counts.rejected, 0);
  const std::vector<size_t> rows{4, 3, 2, 1, 0};
  EXPECT_EQ(next_to_review(scope, rows, 0), 0);
  EXPECT_EQ(next_to_review(scope, rows, 1), 2) << "d is filtered";
  EXPECT_EQ(next_to_review(scope, rows, 3), 0) << "from the start again";
  EXPECT_EQ(next_to_review(scope, {0, 1, 3}, 1), -1);
  EXPECT_EQ(next_to_review(scope, {}, 0), -1);
}

TEST(Query, AWrongRangeIsNamed) {
  for (const char* range : {"", "x", "x:1", ":1:2", "x:a:2", "x:1:nan", "x:1:2 "})
    EXPECT_THROW((void)query({{"range", range}}), Error) << range;
  EXPECT_EQ(query({{"range", "a:b:1:2e3"}}).ranges.at("a:b").high, 2000);  // names may have colons
}

// Compared with a count of every bar by its definition.
TEST(Histograms, CountWhatTheOtherConditionsLeave) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(-3, 11);
  std::vector<Clip> clips;
  std::map<std::string, std::vector<double>> columns;
  for (int i = 0; i < 500; ++i) {
    clips.push_back(clip(std::to_string(i), i % 3 ? End::kept : End::filtered, "r"));
    columns["scores.x"].push_back(i % 7 ? uniform(random) : NAN);
    columns["n"].push_back(i % 5);
    columns["constant"].push_back(1);
  }
  const Catalogue c = catalogue_of(clips, columns);
  const auto all =
      histograms(shelf_of(c), query({{"end", "kept"}, {"range", "scores.x:0:4"}, {"range", "n:1:3"}}), 10);
  ASSERT_EQ(all.size(), 2U);  // one value is not a distribution
  EXPECT_EQ(all[0].field, "scores.x");
  EXPECT_TRUE(all[1].whole);
  EXPECT_EQ(all[1].high, 5);
  for (const auto& h : all) {
    std::vector<int64_t> expected(h.all.size(), 0), expected_shown(h.all.size(), 0);
    for (size_t i = 0; i < clips.size(); ++i) {
      const double v = columns[h.field][i], x = columns["scores.x"][i], n = columns["n"][i];
      if (std::isnan(v)) continue;
      size_t bar = 0;
      while (bar + 1 < h.all.size() &&
             v >= h.low + (h.high - h.low) * static_cast<double>(bar + 1) / static_cast<double>(h.all.size()))
        ++bar;
      ++expected[bar];
      const bool other = h.field == "n" ? x >= 0 && x < 4 : n >= 1 && n < 3;
      expected_shown[bar] += other && i % 3 != 0;
    }
    EXPECT_EQ(h.all, expected) << h.field;
    EXPECT_EQ(h.shown, expected_shown) << h.field;
  }
}

TEST(Histograms, PositiveValuesOfManySizesHaveALogarithmicScale) {
  std::vector<Clip> clips;
  std::map<std::string, std::vector<double>> columns;
  for (int i = 0; i < 400; ++i) {
    clips.push_back(clip(std::to_string(i)));
    columns["wide"].push_back(10 * std::pow(1000, i / 399.0));
    columns["even"].push_back(1 + 2.5 * i);
    columns["zero"].push_back(i == 0 ? 0 : columns["wide"].back());
    columns["zeros"].push_back(i % 3 == 0 ? 0 : columns["wide"].back());
    columns["signed"].push_back(i == 0 ? -1 : columns["wide"].back());
  }
  const Catalogue c = catalogue_of(clips, columns);
  for (const auto& h : histograms(shelf_of(c), {}, 10)) {
    if (h.field == "zero") {
      ASSERT_EQ(h.edges.size(), 11U);
      EXPECT_EQ(h.edges[0], 0);
      EXPECT_EQ(h.edges[1], columns["wide"][1]) << "the first bar is of zero alone";
      EXPECT_EQ(h.edges.back(), h.high);
      EXPECT_EQ(h.all[0], 1);
      for (size_t bar = 1; bar < 10; ++bar) EXPECT_NEAR(static_cast<double>(h.all[bar]), 399 / 9.0, 2) << bar;
      continue;
    }
    if (h.field != "wide") {
      EXPECT_TRUE(h.edges.empty()) << h.field;
      continue;
    }
    ASSERT_EQ(h.edges.size(), 11U);
    EXPECT_EQ(h.edges.front(), h.low);
    EXPECT_EQ(h.edges.back(), h.high);
    for (size_t bar = 0; bar < 10; ++bar) {
      EXPECT_NEAR(static_cast<double>(h.all[bar]), 40, 1) << bar;
      const std::string range =
          "wide:" + nlohmann::json(h.edges[bar]).dump() + ":" + nlohmann::json(h.edges[bar + 1]).dump();
      EXPECT_EQ(select(shelf_of(c), query({{"range", range}})).size(), static_cast<size_t>(h.all[bar]))
          << range;
    }
  }
}

TEST(Search, EveryWordMustBeginAWordAndWholeRareOnesComeFirst) {
  const Catalogue c = catalogue_of({clip("a", End::kept, "", "A boathouse, at sea"),
                                    clip("b", End::kept, "", "The Boat at sea."),
                                    clip("c", End::kept, "", "at sea"), clip("d", End::kept, "", "boating")});
  const auto find = [&](const QueryScope& scope, const char* text) {
    return search_words(c, scope.edits, text);
  };
  EXPECT_THAT(find(shelf_of(c), "boat"), ElementsAre(1, 0, 3));
  EXPECT_THAT(find(shelf_of(c), "SEA boat"), ElementsAre(1, 0));
  EXPECT_THAT(find(shelf_of(c), "nothing"), ElementsAre());
  EXPECT_THAT(find(shelf_of(c, {{"c", {"a boat", std::nullopt, std::nullopt}}}), "boat"),
              ElementsAre(1, 2, 0, 3));
}

TEST(Similarity, OrdersAndBoundsLikeAColumn) {
  const Catalogue c = catalogue_of({clip("a"), clip("b"), clip("c", End::filtered, "r"), clip("d")});
  const Found found{{3, 0, 2, 1}, {0.5, NAN, 0.25, 1.0}};
  QueryScope scope = shelf_of(c);
  scope.found = &found;
  EXPECT_THAT(select(scope, query({{"q", "boat"}})), ElementsAre(3, 0, 2, 1));
  EXPECT_THAT(select(scope, query({{"like", "job/d"}, {"end", "kept"}})), ElementsAre(3, 0, 1));
  EXPECT_THAT(select(scope, query({{"q", "boat"}, {"range", "similarity:0.3:1"}})), ElementsAre(3, 0));
  EXPECT_THAT(select(scope, query({{"q", "boat"}, {"sort", "similarity"}})), ElementsAre(2, 0, 3, 1));
  EXPECT_THAT(select(scope, query({{"q", "boat"}, {"sort", "key"}})), ElementsAre(0, 1, 2, 3));
  const auto bars = histograms(scope, query({{"q", "boat"}}), 3);
  ASSERT_EQ(bars.size(), 1U);
  EXPECT_EQ(bars[0].field, "similarity");
  EXPECT_THAT(bars[0].all, ElementsAre(1, 1, 1));
  // Without a search no clip has the number.
  EXPECT_THAT(select(shelf_of(c), query({{"range", "similarity:0:1"}})), ElementsAre());
  EXPECT_THAT(select(shelf_of(c), query({{"sort", "similarity"}})), ElementsAre(0, 1, 2, 3));
}

TEST(Timeline, AClipBelongsToTheShotOfItsFirstFrame) {
  std::vector<Clip> clips{clip("f-0000"), clip("f-0001", End::filtered, "r"), clip("f-0002")};
  for (auto& one : clips) one.video = "f";
  const Catalogue c = catalogue_of(clips, {{"first_frame", {0, 30, 60}}});
  const nlohmann::json line{
      {"shots",
       {{"fps", 10}, {"frames", 100}, {"cuts", {30}}, {"times_us", {3100000}}, {"scores", {0, 1, 9, 2}}}}};
  const auto out = timeline(c, shelf_of(c).edits, 0, "f", line);
  ASSERT_EQ(out["shots"].size(), 2U);
  EXPECT_EQ(out["shots"][0]["end_s"], 3.1);  // recorded time, not 30 / fps
  EXPECT_EQ(out["shots"][1]["end_s"], 10);
  EXPECT_EQ(out["shots"][0]["clips"].size(), 1U);
  EXPECT_EQ(out["shots"][1]["clips"].size(), 2U);
  EXPECT_EQ(out["shots"][1]["clips"][0]["end"], "filtered");
  EXPECT_EQ(out["curve"], nlohmann::json({0, 1, 9, 2}));
}

}  // namespace
}  // namespace kinora::studio
