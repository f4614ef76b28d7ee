#include "plugins/jobs/loading/data_set.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/loading/data_order.hpp"
#include "plugins/jobs/loading/held_out.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/tar_bytes.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Keys = std::vector<std::string>;

// The set "clips": 4 shards of 25 samples with the fields mp4, txt and, but for every tenth, json.
class DataSetOf : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "kinora-set-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    for (int shard = 0; shard < 4; ++shard) {
      test::TarFiles files;
      for (int i = 25 * shard; i < 25 * (shard + 1); ++i) {
        files.emplace_back(key(i) + ".mp4", std::to_string(i));
        if (i % 10 != 9) files.emplace_back(key(i) + ".json", facts(i).dump());
        files.emplace_back(key(i) + ".txt", "own");
      }
      write("clips", shard, files);
    }
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string key(int i) { return fmt::format("clip-{:03}", i); }
  static json facts(int i) { return {{"duration_s", i % 7}, {"scores", {{"filter.blur", i}}}}; }

  void write(const std::string& set, int shard, const test::TarFiles& files) const {
    fs::create_directories(folder_ / set);
    std::ofstream(folder_ / set / fmt::format("s-{}.tar", shard), std::ios::binary) << test::tar_bytes(files);
  }
  std::string path(const std::string& set) const { return (folder_ / set).string(); }
  DataInput clips(const std::string& where = "", double from = 0, double to = 1) const {
    return {.path = path("clips"), .parts = {}, .part = {from, to}, .where = where};
  }
  // Captions of the even clips, in two shards, the other way round.
  void write_captions() const {
    for (int shard = 0; shard < 2; ++shard) {
      test::TarFiles files;
      for (int i = 98 - 50 * shard; i >= 50 - 50 * shard; i -= 2) {
        files.emplace_back(key(i) + ".txt", fmt::format("caption {}", i));
        files.emplace_back(key(i) + ".json", json{{"rated", i % 4 == 0}}.dump());
        files.emplace_back(key(i) + ".npy", "x");
      }
      write("captions", shard, files);
    }
  }
  DataJoin captions(std::vector<std::string> fields) const { return {path("captions"), std::move(fields)}; }

  // The samples in the order of the shards.
  template <class Of>
  static auto all(const DataSet& set, const Of& of) {
    std::vector<decltype(of(ShardOrder::Place{}))> out;
    for (size_t shard = 0; shard < set.samples().size(); ++shard)
      for (uint64_t i = 0; i < set.samples()[shard]; ++i) out.push_back(of(ShardOrder::Place{shard, i}));
    return out;
  }
  static Keys keys(const DataSet& set) {
    return all(set, [&](ShardOrder::Place place) { return set.key(place); });
  }
  static std::string field(const WebDatasetSample& sample, const char* name) {
    const auto* found = sample.find(name);
    return found ? std::string(found->bytes.begin(), found->bytes.end()) : "none";
  }

  fs::path folder_;
};

TEST_F(DataSetOf, WhereKeepsTheSamplesWhoseFactsSatisfyIt) {
  const DataSet set(clips("scores.filter.blur >= 20 and duration_s > 2"));
  Keys expected;
  for (int i = 20; i < 100; ++i)
    if (i % 10 != 9 && i % 7 > 2) expected.push_back(key(i));
  EXPECT_EQ(keys(set), expected);
  EXPECT_EQ(set.size(), expected.size());
  for (const auto& sample : all(set, [&](ShardOrder::Place place) { return set.read(place); }))
    EXPECT_EQ(key(std::stoi(field(sample, "mp4"))), sample.key());
  EXPECT_THAT(keys(DataSet(clips("key in ['clip-007', 'clip-099'] and duration_s < 100"))),
              ElementsAre("clip-007"));
  EXPECT_EQ(DataSet(clips("not has(duration_s)")).size(), 10u);
}

TEST_F(DataSetOf, PartsAreDisjointAndStayWhenSamplesAreAdded) {
  const auto of = [&](double from, double to) { return keys(DataSet(clips("", from, to))); };
  const Keys train = of(0, 0.75), validation = of(0.75, 1);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(std::count(train.begin(), train.end(), key(i)), hash_share(key(i)) < 0.75 ? 1 : 0);
  EXPECT_EQ(train.size() + validation.size(), 100u);
  EXPECT_GT(train.size(), 60u);
  EXPECT_GT(validation.size(), 10u);
  test::TarFiles more;
  for (int i = 200; i < 240; ++i) more.emplace_back(key(i) + ".mp4", "x");
  write("clips", 4, more);
  const Keys later = of(0, 0.75);
  EXPECT_TRUE(std::includes(later.begin(), later.end(), train.begin(), train.end()));
  EXPECT_GT(later.size(), train.size());
  for (const auto& one : of(0.75, 1)) EXPECT_EQ(std::count(train.begin(), train.end(), one), 0) << one;
}

TEST_F(DataSetOf, EachEpochOfASubsetHasEachOfItsSamplesOnce) {
  DataInput input = clips("duration_s == 3", 0, 0.8);
  input.shuffle = 5;
  DataOrder order(input, 1);
  Keys expected;
  for (int i = 0; i < 100; ++i)
    if (i % 10 != 9 && i % 7 == 3 && hash_share(key(i)) < 0.8) expected.push_back(key(i));
  ASSERT_EQ(order.pass(), expected.size());
  std::set<Keys> epochs;
  for (uint64_t epoch = 0; epoch < 4; ++epoch) {
    Keys taken;
    for (uint64_t i = 0; i < order.pass(); ++i) taken.push_back(order.key(epoch * order.pass() + i));
    epochs.insert(taken);
    std::sort(taken.begin(), taken.end());
    EXPECT_EQ(taken, expected);
  }
  EXPECT_EQ(epochs.size(), 4u);
}

TEST_F(DataSetOf, PlacesInMessagesAreThoseOfTheShard) {
  const DataSet set(clips("scores.filter.blur == 42"));
  EXPECT_EQ(set.text_of({1, 0}), fmt::format("sample 17 of {}/s-1.tar", path("clips")));
}

TEST_F(DataSetOf, ASubsetOfNothingSaysWhichConditionIsAtFault) {
  EXPECT_THAT(
      test::refusal([&] { DataSet(clips("duration_s > 7")); }),
      HasSubstr("/clips: no sample is left of 100; where = \"duration_s > 7\" holds for none of 100"));
  EXPECT_THAT(
      test::refusal([&] { DataSet(clips("motion > 7")); }),
      HasSubstr("the sample 'clip-000' has no fact 'motion' (its facts: duration_s, scores.filter.blur)"));
  EXPECT_THAT(
      test::refusal([&] { DataSet(clips("duration_s > 1", 0, 1e-9)); }),
      AllOf(HasSubstr("no sample is left of 100; part = [0, 1e-09] leaves 0"), Not(HasSubstr("where"))));
  EXPECT_THAT(test::refusal([&] { DataSet(clips("duration_s > ")); }), HasSubstr("column 14"));
}

TEST_F(DataSetOf, DamagedSamplesAreLeftOut) {
  {
    std::fstream file(folder_ / "clips/s-0.tar", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(148);
    file << "999999";  // the checksum of the first header
  }
  std::string index;
  uint64_t offset = 0;
  for (int i = 0; i <= 25; ++i) {
    index.append(reinterpret_cast<const char*>(&offset), sizeof offset);
    offset += i % 10 == 9 ? 2048 : 3072;
  }
  std::ofstream(folder_ / "clips/s-0.tar.idx", std::ios::binary) << index;
  const Keys kept = keys(DataSet(clips("duration_s >= 0")));
  EXPECT_EQ(kept.front(), key(1));
  EXPECT_EQ(kept[8], key(10)) << "clip 9 has no facts";
}

TEST_F(DataSetOf, WhatLiesBehindAHoleCountsAsFailed) {
  test::TarFiles files;
  for (int i = 0; i < 8; ++i) files.emplace_back("n" + std::to_string(i) + ".txt", "x");
  write("holes", 0, files);
  std::fstream file(folder_ / "holes/s-0.tar", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(3 * 1024);
  file << std::string(1024, '\0');  // n3
  file.close();
  const std::vector<std::string> kept{"n0", "n1", "n2"};
  std::string offsets;
  for (uint64_t offset = 0; offset <= 3 * 1024; offset += 1024)
    offsets.append(reinterpret_cast<const char*>(&offset), sizeof offset);
  for (const bool is_indexed : {false, true}) {
    if (is_indexed) {  // as programs do that stop at the hole
      std::ofstream(folder_ / "holes/s-0.tar.idx", std::ios::binary) << offsets;
      fs::create_directories(folder_ / "holes/.nv-meta");
      std::ofstream(folder_ / "holes/.nv-meta/.info.json") << R"({"shard_counts": {"s-0.tar": 3}})";
    }
    DataOrder order({.path = path("holes"), .parts = {}}, 1);
    LostSamples lost("train", {.max_failed = 10, .max_failed_share = 1});
    const auto use = [&](const DataOrder::Draw& draw, Unused&) {
      const std::string key = order.set(draw.set).read(draw.place).key();
      EXPECT_THAT(kept, testing::Contains(key));
      return true;
    };
    for (uint64_t slot = 0; slot < order.pass(); ++slot) order.find_usable(slot, use, &lost);
    EXPECT_EQ(lost.failed(), 5) << "the hole, and n4 to n7" << is_indexed;
  }
}

TEST_F(DataSetOf, BrokenJsonIsADamagedSampleThatIsNamedAndCounted) {
  const std::string deep = std::string(65, '[') + std::string(65, ']');
  write("broken", 0,
        {{"a.json", facts(3).dump()},
         {"b.json", "{\"duration_s\": "},
         {"c.json", facts(4).dump()},
         {"d.txt", "x"}});
  write("broken", 1, {{"e.json", deep}, {"f.json", facts(5).dump()}});
  DataInput input{.path = path("broken"), .parts = {}, .where = "duration_s > 3"};
  DataOrder order(input, 1);
  EXPECT_EQ(keys(order.set(0)), (Keys{"c", "f"}));
  const auto unread = order.set(0).take_unread();
  ASSERT_EQ(unread.size(), 2u);
  EXPECT_EQ(unread[0].which, "sample 1 of " + path("broken") + "/s-0.tar");
  EXPECT_THAT(unread[0].why, HasSubstr("/s-0.tar: the sample 'b' at byte 1024: its json is not JSON"));
  EXPECT_THAT(unread[1].why, HasSubstr("/s-1.tar: the sample 'e' at byte 0: "));
  LostSamples lost("train", {.max_failed = 2});
  ::testing::internal::CaptureStderr();
  DataOrder(input, 1).count_unread(lost);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("train: sample 1 of " + path("broken") + "/s-0.tar is left out: "),
                    HasSubstr("the sample 'e' at byte 0")));
  EXPECT_EQ(lost.failed(), 2);
  DataCounts counts;
  order.set(0).add_to(counts);
  EXPECT_EQ(counts.left_out.at("where"), 2u) << "a, and d without facts";
  EXPECT_EQ(counts.left_out.at("part"), 0u);
  LostSamples strict("train", {.max_failed = 0});
  EXPECT_THAT(test::refusal([&] { DataOrder(input, 1).count_unread(strict); }),
              AllOf(HasSubstr("more than max_failed = 0 allows"), HasSubstr("at byte 1024")));
  input.where = "duration_s > 7";
  EXPECT_THAT(test::refusal([&] { DataSet set(input); }),
              AllOf(HasSubstr("holds for none of 4"), HasSubstr("2 are damaged, the first: ")));
}

TEST_F(DataSetOf, WhatPartLeavesOutIsCounted) {
  DataCounts counts;
  const DataSet set(clips("duration_s > 2", 0, 0.75));
  set.add_to(counts);
  uint64_t by_part = 0, by_where = 0;
  for (int i = 0; i < 100; ++i) {
    const bool is_in = hash_share(key(i)) < 0.75;
    by_part += is_in ? 0 : 1;
    by_where += is_in && (i % 10 == 9 || i % 7 <= 2) ? 1 : 0;
  }
  EXPECT_EQ(counts.left_out, (std::map<std::string, uint64_t>{{"part", by_part}, {"where", by_where}}));
  EXPECT_EQ(set.size() + by_part + by_where, 100u);
}

TEST_F(DataSetOf, ANameThatNoSampleCanHaveCostsItsSample) {
  write("odd", 0,
        {{"./good.txt", "1"}, {"../../x.txt", "2"}, {"q\x01.txt", "3"}, {"x.", "4"}, {"a//b.txt", "5"}});
  const DataSet set(DataInput{.path = path("odd"), .parts = {}});
  ASSERT_EQ(set.size(), 5u);
  EXPECT_EQ(to_sample(set.read({0, 0})).key(), "good");
  for (uint64_t i = 1; i < 5; ++i) {
    try {
      to_sample(set.read({0, i}));
      ADD_FAILURE() << "sample " << i;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_DATA) << e.what();
      EXPECT_THAT(e.what(), AllOf(HasSubstr("/odd/s-0.tar: "),
                                  HasSubstr(fmt::format("(the sample at byte {})", 1024 * i))));
    }
  }
}

TEST_F(DataSetOf, AShardOfAnotherCountThanListedIsRefused) {
  fs::create_directories(folder_ / "clips/.nv-meta");
  std::ofstream(folder_ / "clips/.nv-meta/.info.json")
      << R"({"shard_counts": {"s-0.tar": 25, "s-1.tar": 26}})";
  const DataSet set(clips());
  EXPECT_EQ(set.read({0, 24}).key(), key(24));
  EXPECT_THAT(test::refusal([&] {
                set.read({1, 0});
              }),
              AllOf(HasSubstr("/s-1.tar: has 25 samples by its headers, and .nv-meta/.info.json says 26; "),
                    HasSubstr("`kinora data index " + path("clips") + "`")));
}

TEST_F(DataSetOf, ShardsThatTheIndexDoesNotListAreNamed) {
  fs::create_directories(folder_ / "clips/.nv-meta");
  std::ofstream(folder_ / "clips/.nv-meta/.info.json")
      << R"({"shard_counts": {"s-0.tar": 25, "s-1.tar": 25}})";
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(DataSet(clips()).size(), 50u);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("2 shards are not in .nv-meta/.info.json and not read, the first is s-2.tar; "),
                    HasSubstr("`kinora data index " + path("clips") + "`")));
}

TEST_F(DataSetOf, AMissingShardThatTheIndexListsIsRefused) {
  fs::create_directories(folder_ / "clips/.nv-meta");
  std::ofstream(folder_ / "clips/.nv-meta/.info.json")
      << R"({"shard_counts": {"s-0.tar": 25, "s-9.tar": 25}})";
  EXPECT_THAT(
      test::refusal([&] { DataSet{clips()}; }),
      AllOf(HasSubstr("/s-9.tar: missing, "), HasSubstr("`kinora data index " + path("clips") + "`")));
}

TEST_F(DataSetOf, ACutShardWithoutAnIndexCostsOneSample) {
  const fs::path shard = folder_ / "clips/s-3.tar";
  fs::resize_file(shard,
                  9 * 3072 + 2048 + 1024);  // clips 75 to 84, of which 79 has two members, and a part of 85
  DataInput input = clips();
  DataOrder order(input, 1);
  const auto& samples = order.set(0).samples();
  EXPECT_EQ(samples.back(), 11u);
  EXPECT_EQ(order.set(0).key({3, 9}), key(84));
  EXPECT_THAT(test::refusal([&] {
                order.set(0).read({3, 10});
              }),
              HasSubstr("the shard is left out from byte "));
  EXPECT_EQ(order.pass(), 86u);
}

TEST_F(DataSetOf, JoinsTakeFieldsOfTheSampleWithTheSameKey) {
  write_captions();
  DataInput input = clips();
  input.joins = {captions({"txt", "npy"})};
  const DataSet set(input);
  EXPECT_EQ(set.size(), 100u);
  for (int i = 0; i < 100; i += 2) {
    const ShardOrder::Place place{static_cast<size_t>(i / 25), static_cast<uint64_t>(i % 25)};
    const auto sample = set.read(place);
    EXPECT_EQ(sample.key(), key(i));
    EXPECT_EQ(set.key(place), key(i));
    EXPECT_EQ(field(sample, "txt"), fmt::format("caption {}", i));
    EXPECT_EQ(field(sample, "npy"), "x");
    EXPECT_EQ(field(sample, "mp4"), std::to_string(i));
    EXPECT_EQ(field(sample, "json"), facts(i).dump());
  }
  const std::string without_partner = path("captions") + " has no sample with the key 'clip-001'";
  EXPECT_THAT(test::refusal([&] { set.read({0, 1}); }), HasSubstr(without_partner));
  EXPECT_THAT(test::refusal([&] { set.key({0, 1}); }), HasSubstr(without_partner));
  DataOrder order(input, 1);  // the odd clips are replaced
  for (uint64_t slot = 0; slot < 100; ++slot) {
    const int taken = std::stoi(order.key(slot).substr(5));
    EXPECT_EQ(taken % 2, 0);
    EXPECT_TRUE(slot % 2 == 1 || taken == static_cast<int>(slot)) << slot;
  }
}

TEST_F(DataSetOf, WhereReadsTheFactsThatAJoinGives) {
  write_captions();
  DataInput input = clips("rated == true");
  input.joins = {captions({"json"})};
  Keys expected;
  for (int i = 0; i < 100; i += 4) expected.push_back(key(i));
  EXPECT_EQ(keys(DataSet(input)), expected);
  input.where = "duration_s > 2";  // a fact of the clips' own json
  EXPECT_THAT(test::refusal([&] { DataSet set(input); }),
              HasSubstr("the sample 'clip-000' has no fact 'duration_s'"));
  input.joins = {captions({"txt"})};
  EXPECT_GT(DataSet(input).size(), 30u);
}

TEST_F(DataSetOf, WhatCannotBeJoinedIsRefused) {
  write_captions();
  DataInput input = clips();
  input.joins = {captions({"vtt"})};
  EXPECT_THAT(test::refusal([&] {
                DataSet(input).read({0, 0});
              }),
              AllOf(HasSubstr("s-1.tar ('clip-000') has no field 'vtt'"), HasSubstr("sample 24 of ")));
  write("captions", 2, {{"other.txt", "x"}, {"clip-096.txt", "again"}});
  EXPECT_THAT(test::refusal([&] { DataSet set(input); }),
              AllOf(HasSubstr("sample 1 of " + path("captions") + "/s-0.tar and sample 1 of "),
                    HasSubstr("s-2.tar have the same key 'clip-096'")));
  input.joins = {{path("nothing"), {"txt"}}};
  EXPECT_THAT(test::refusal([&] { DataSet set(input); }), HasSubstr("nothing"));
}

TEST_F(DataSetOf, TheDigestDependsOnWhatIsKeptAndJoined) {
  write_captions();
  std::set<std::string> seen;
  const auto is_new = [&](const DataInput& input) { return seen.insert(DataSet(input).digest()).second; };
  EXPECT_TRUE(is_new(clips()));
  EXPECT_TRUE(is_new(clips("duration_s > 2")));
  EXPECT_TRUE(is_new(clips("duration_s > 2.5")));  // which keeps the same
  EXPECT_TRUE(is_new(clips("", 0, 0.5)));
  EXPECT_TRUE(is_new(clips("", 0, 0.6)));
  DataInput joined = clips();
  joined.joins = {captions({"txt"})};
  EXPECT_TRUE(is_new(joined));
  joined.joins = {captions({"npy"})};
  EXPECT_TRUE(is_new(joined));
  EXPECT_FALSE(is_new(clips("duration_s > 2")));
  test::TarFiles files;  // as many samples, other facts
  for (int i = 0; i < 25; ++i) files.emplace_back(key(i) + ".json", json{{"duration_s", 9}}.dump());
  write("clips", 0, files);
  EXPECT_FALSE(is_new(clips()));
  EXPECT_TRUE(is_new(clips("duration_s > 2")));
}

}  // namespace
}  // namespace kinora::core
