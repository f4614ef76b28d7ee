// Tests that inputs come back from their rows as they were, in their order, each with a key of its own.
#include "plugins/jobs/curation/input_rows.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/curation/input_rows_testing.hpp"

namespace kinora::core {
namespace {

using testing::ElementsAre;

Input at_url(const std::string& url) {
  Input out;
  out.url = url;
  return out;
}

TEST(InputRows, GiveBackWhatWasAdded) {
  Input odd = at_url("/videos/gr\xFCn\n.mp4"), plain = at_url("s3://bucket/a.mp4"),
        bad = at_url("m.csv record 3");
  odd.key = "k", odd.wanted = "w.x", odd.caption = "", odd.key_before = "before", odd.recorded = 7;
  odd.user = {{"n", 0.1}, {"list", {1, nullptr, "\xC3\xA9"}}};
  odd.size = uint64_t{1} << 40, odd.modified = -5;
  bad.error = "it names no video";
  RowsOf of({odd, plain, bad});
  ASSERT_EQ(of.rows.size(), 3u);
  const Input back = of.rows[0];
  EXPECT_EQ(std::tie(back.key, back.url, back.wanted, back.caption, back.user, back.size, back.modified),
            std::tie(odd.key, odd.url, odd.wanted, odd.caption, odd.user, odd.size, odd.modified));
  EXPECT_EQ(back.identity(), odd.identity());
  EXPECT_EQ(back.key_before, "before");
  EXPECT_EQ(back.recorded, 7);
  EXPECT_EQ(of.rows[1].caption, std::nullopt);
  EXPECT_EQ(of.rows[1].user, json::object());
  EXPECT_EQ(of.rows[2].error, bad.error);
  EXPECT_EQ(of.rows.usable(), 2u);
  EXPECT_EQ(of.rows.bytes(), uint64_t{1} << 40);
  EXPECT_EQ(of.rows.find("k"), std::optional<size_t>(0));
  EXPECT_EQ(of.rows.recorded(7), std::optional<size_t>(0));
}

TEST(InputRows, AreInTheirOrderHoweverManyThereAre) {
  InputRows rows;
  constexpr size_t kMany = 3000;  // more than are in memory at once
  for (size_t i = 0; i < kMany; ++i) rows.add(at_url(fmt::format("/{}/film.mp4", i)));
  name_inputs(rows);
  size_t next = 0;
  rows.each([&](size_t at, const Input& input) {
    EXPECT_EQ(at, next);
    EXPECT_EQ(input.url, fmt::format("/{}/film.mp4", next));
    // From film-1000 on it would be the key of a clip of film.
    EXPECT_EQ(input.key, next == 0 ? "film" : fmt::format("film-{}{}", next + 1, next < 999 ? "" : "-film"));
    ++next;
  });
  EXPECT_EQ(next, kMany);
  EXPECT_EQ(rows.find("film-77"), std::optional<size_t>(76));
  EXPECT_EQ(rows.find("film-1"), std::nullopt);
}

TEST(InputRows, HaveEachKeyOnceAndNoneThatIsReserved) {
  RowsOf of({at_url("/a.mp4"), at_url("/b/a.mp4"), at_url("/a-2.mp4")});
  of.rows.reserve("a");
  const auto keys = [&] {
    name_inputs(of.rows);
    std::vector<std::string> out;
    for (const Input& input : all_of(of.rows)) out.push_back(input.key);
    return out;
  };
  EXPECT_THAT(keys(), ElementsAre("a-2", "a-3", "a-2-2"));
  EXPECT_THAT(keys(), ElementsAre("a-2", "a-3", "a-2-2")) << "again";
  EXPECT_EQ(of.rows.find("a"), std::nullopt) << "of no input";
  EXPECT_TRUE(of.rows.is_taken("a"));
  of.rows.forget_record();
  EXPECT_THAT(keys(), ElementsAre("a", "a-2", "a-2-2"));
  of.rows.reserve("a");
  EXPECT_THAT(keys(), ElementsAre("a-2", "a-3", "a-2-2")) << "though an input had it";
}

TEST(InputRows, AreFoundByUrlAndFileNameAsLongAsTheRecordHasNoneForThem) {
  RowsOf of({at_url("/x/f.mp4"), at_url("/y/f.mp4"), at_url("/y/f.mp4"), at_url("g.mp4")});
  EXPECT_EQ(of.rows.unrecorded_at("/y/f.mp4"), std::optional<size_t>(1));
  of.rows.set_recorded(1, 5, "f");
  EXPECT_EQ(of.rows.unrecorded_at("/y/f.mp4"), std::optional<size_t>(2));
  EXPECT_EQ(of.rows.unrecorded_at("/none"), std::nullopt);
  EXPECT_EQ(of.rows.unrecorded_called("f.mp4", 0), std::optional<size_t>(0));
  EXPECT_EQ(of.rows.unrecorded_called("f.mp4", 1), std::optional<size_t>(2));
  EXPECT_EQ(of.rows.unrecorded_called("f.mp4", 3), std::nullopt);
  EXPECT_TRUE(of.rows.is_only("g.mp4"));
  EXPECT_FALSE(of.rows.is_only("f.mp4"));
  EXPECT_EQ(of.rows.set_file({"/y/f.mp4", 9, 8, ""}), 2u);
  EXPECT_EQ(of.rows[2].size, 9u);
  EXPECT_EQ(of.rows.set_file({"/y/f.mp4", 9, 8, ""}), 0u) << "they have a size";
  of.rows.truncate(1);
  EXPECT_EQ(of.rows.size(), 1u);
  EXPECT_EQ(of.rows.unrecorded_at("g.mp4"), std::nullopt);
}

}  // namespace
}  // namespace kinora::core
