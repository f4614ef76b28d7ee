// Folders of shards, with and without an index.

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "kinora/webdataset_files.hpp"
#include "plugins/jobs/curation/webdataset.hpp"
#include "plugins/jobs/curation/webdataset_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace webdataset_testing;

class WebDatasetFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "kinora-webdataset-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { fs::remove_all(folder); }
  void write(const std::string& name, const std::string& bytes) {
    fs::create_directories(fs::path(folder + "/" + name).parent_path());
    std::ofstream(folder + "/" + name, std::ios::binary) << bytes;
  }
  // The index of s.tar.
  void put(const std::vector<uint64_t>& offsets) {
    write("s.tar.idx", std::string(reinterpret_cast<const char*>(offsets.data()), offsets.size() * 8));
  }
  std::string folder;
};

TEST_F(WebDatasetFolder, ListsShardsAsEnergonDoesElseByName) {
  for (const char* name : {"b.tar", "a.tar", "c.tar", ".hidden.tar", "a.tar.idx", "x.txt"})
    write(name, tar({{std::string(name) + ".txt", "1"}}));
  const auto names = [&] {
    std::vector<std::string> out;
    const auto shards = or_throw(webdataset_shards(folder));
    for (const auto& shard : shards) out.push_back(shard.substr(folder.size() + 1));
    return out;
  };
  EXPECT_THAT(names(), ElementsAre("a.tar", "b.tar", "c.tar"));
  write(".nv-meta/.info.json", R"({"energon_version": "7", "shard_counts": {"c.tar": 1, "a.tar": 1}})");
  EXPECT_THAT(names(), ElementsAre("c.tar", "a.tar"));
  for (const char* bad : {"../a.tar", "/etc/passwd"}) {
    write(".nv-meta/.info.json", std::string(R"({"shard_counts": {")") + bad + "\": 1}}");
    EXPECT_THAT(webdataset_shards(folder).failure().message, HasSubstr("not a name below the folder"));
  }
  EXPECT_EQ(webdataset_shards(folder + "/no").failure().code, KINORA_ERROR_NOT_FOUND);
}

TEST_F(WebDatasetFolder, FindsEverySampleAgain) {
  Files first, second;
  for (int n = 0; n < 50; ++n) {
    auto& to = n < 30 ? first : second;
    const std::string key = (n % 7 ? "" : std::string(180, 'd') + "/") + "k" + std::to_string(n);
    to.emplace_back(key + ".mp4", std::string(static_cast<size_t>(n * 331 % 2000), static_cast<char>(n)));
    to.emplace_back(key + ".txt", std::to_string(n));
  }
  write("s-0.tar", tar(first, archive_write_set_format_pax_restricted));
  write("s-1.tar", tar(second, archive_write_set_format_pax_restricted));
  const auto index = index_webdataset(folder);
  ASSERT_TRUE(index) << index.failure().message;
  ASSERT_EQ(index->size(), 50u);
  for (size_t i = index->size(); i-- > 0;) {
    const auto sample = read_webdataset((*index)[i]);
    ASSERT_TRUE(sample) << sample.failure().message;
    const auto* txt = sample->find("txt");
    EXPECT_EQ(std::string(txt->bytes.begin(), txt->bytes.end()), std::to_string(i));
    EXPECT_EQ(sample->find("mp4")->bytes.size(), i * 331 % 2000);
    EXPECT_EQ(sample->where.offset, (*index)[i].offset);
  }
  auto moved = (*index)[3];
  moved.offset = (*index)[4].offset;
  moved.size = (*index)[4].size;
  EXPECT_THAT(read_webdataset(moved).failure().message, HasSubstr("the shard has changed"));
}

TEST_F(WebDatasetFolder, ReadsThroughTheIndexAndRefusesAForeignOne) {
  const std::string bytes = tar({{"a.txt", "1"}, {"b.txt", "22"}});
  write("s.tar", bytes);
  put({0, 1024, 2048});
  const auto shard = WebDatasetShard::open(folder + "/s.tar");
  ASSERT_TRUE(shard) << shard.failure().message;
  ASSERT_EQ(shard->size(), 2u);
  EXPECT_EQ(shard->at(1)->key(), "b");
  EXPECT_EQ(shard->at(0)->key(), "a");
  EXPECT_EQ(shard->at(2).failure().code, KINORA_ERROR_INVALID);
  for (const auto& bad : {std::vector<uint64_t>{}, {0, 0}, {1024, 0}}) {
    put(bad);
    EXPECT_THAT(WebDatasetShard::open(folder + "/s.tar").failure().message, HasSubstr("not an index of"));
  }
  put({0, 2048, bytes.size()});
  const auto off = WebDatasetShard::open(folder + "/s.tar");
  EXPECT_THAT(off->at(1).failure().message, HasSubstr("no sample at byte 2048"));
  write("twice.tar", bytes);
  EXPECT_THAT(index_webdataset(folder).failure().message, HasSubstr("a second sample 'a'"));
}

TEST_F(WebDatasetFolder, AnIndexOfAnotherShardLosesNoSampleUnseen) {
  write("s.tar", tar(eight()));
  const std::string remedy = "write it again with `kinora data index " + folder + "`";
  put({0, 2048, 4096, 6144, 8192});
  const auto shard = or_throw(WebDatasetShard::open(folder + "/s.tar"));
  for (size_t i = 0; i < 4; ++i) {
    const std::string both =
        fmt::format("/s.tar: the samples 'n{}' and 'n{}' at byte {}, ", 2 * i, 2 * i + 1, 2048 * i);
    for (const auto& failure : {shard.at(i).failure(), shard.key(i).failure()}) {
      EXPECT_EQ(failure.code, KINORA_ERROR_DATA);
      EXPECT_THAT(failure.message, AllOf(HasSubstr(both), HasSubstr(remedy)));
    }
  }
  put({0, 1024, 2048, 3072, 4096});
  const auto appended = WebDatasetShard::open(folder + "/s.tar");
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.failure().code, KINORA_ERROR_DATA);
  EXPECT_THAT(appended.failure().message,
              AllOf(HasSubstr("/s.tar: the sample 'n4' at byte 4096 comes after "), HasSubstr(remedy)));
}

TEST_F(WebDatasetFolder, WhatFollowsTheLastSampleMayBePaddingAndNoSamples) {
  put({0, 1024, 2048, 3072, 4096, 5120, 6144, 7168, 8192});
  std::string padded = tar(eight());
  padded.resize(20'480);
  Files more = eight();
  more.insert(more.end(), {{"README", "x"}, {"LICENSE", std::string(5000, 'x')}});
  for (const auto& bytes : {padded, tar(more)}) {
    write("s.tar", bytes);
    EXPECT_EQ(or_throw(WebDatasetShard::open(folder + "/s.tar")).at(7)->key(), "n7");
  }
}

TEST_F(WebDatasetFolder, ACutShardCostsTheSamplesThatAreCut) {
  write("s.tar", tar(eight()).substr(0, 2 * 1024 + 700));
  put({0, 1024, 2048, 3072, 4096});
  const auto shard = or_throw(WebDatasetShard::open(folder + "/s.tar"));
  ASSERT_EQ(shard.size(), 4u);
  EXPECT_EQ(shard.at(0)->key(), "n0");
  EXPECT_EQ(shard.at(1)->key(), "n1");
  for (const auto& failure : {shard.at(2).failure(), shard.key(2).failure(), shard.bytes(2).failure()}) {
    EXPECT_EQ(failure.code, KINORA_ERROR_DATA);
    EXPECT_THAT(failure.message,
                HasSubstr("/s.tar: sample 2 is at bytes 2048 to 3072 by the index, and the shard has 2748"));
  }
  EXPECT_EQ(shard.at(3).failure().code, KINORA_ERROR_DATA);
}

TEST_F(WebDatasetFolder, AScanKeepsWhatLiesBeforeTheDamage) {
  write("s.tar", tar(eight()).substr(0, 2 * 1024 + 700));
  const auto shard = or_throw(WebDatasetShard::open_or_scan(folder + "/s.tar"));
  EXPECT_FALSE(shard.is_whole());
  ASSERT_EQ(shard.size(), 3u) << "two samples and the damage";
  EXPECT_EQ(shard.at(0)->key(), "n0");
  EXPECT_EQ(shard.at(1)->key(), "n1");
  for (size_t i = 2; i < 5; ++i) {  // .nv-meta/.info.json may count more
    EXPECT_EQ(shard.at(i).failure().code, KINORA_ERROR_DATA);
    EXPECT_THAT(shard.at(i).failure().message, HasSubstr("(the shard is left out from byte 2048 on)"));
  }
  write("s.tar", std::string(5000, 'x'));
  EXPECT_THAT(WebDatasetShard::open_or_scan(folder + "/s.tar").failure().message,
              HasSubstr("not a tar archive"));
  write("s.tar", tar({{"a.txt", "1"}, {"b.txt", "2"}, {"b.txt", "3"}, {"c.txt", "4"}}));
  const auto twice = or_throw(WebDatasetShard::open_or_scan(folder + "/s.tar"));
  EXPECT_TRUE(twice.is_whole());
  ASSERT_EQ(twice.size(), 3u);
  EXPECT_EQ(twice.at(1).failure().code, KINORA_ERROR_DATA);
  EXPECT_EQ(twice.at(2)->key(), "c");
}

TEST_F(WebDatasetFolder, SamplesBehindAHoleAreFailures) {
  const std::string whole = tar(eight());
  write("s.tar", with_hole(whole, 2048, 4608));  // n2, n3 and the header of n4
  const auto scanned = or_throw(WebDatasetShard::open_or_scan(folder + "/s.tar"));
  EXPECT_FALSE(scanned.is_whole());
  ASSERT_EQ(scanned.size(), 5u) << "n0, n1 with the hole, n5, n6, n7";
  EXPECT_EQ(scanned.at(0)->key(), "n0");
  for (size_t i = 1; i < 5; ++i) {
    EXPECT_EQ(scanned.at(i).failure().code, KINORA_ERROR_DATA);
    EXPECT_THAT(scanned.at(i).failure().message, HasSubstr("zeros at byte 2048"));
  }
  put({0, 1024, 2048});  // an index that was made behind the hole
  const auto late = or_throw(WebDatasetShard::open(folder + "/s.tar"));
  EXPECT_EQ(late.at(1)->key(), "n1");
  ASSERT_EQ(late.size(), 6u) << "n0, n1, the hole, n5, n6, n7";
  EXPECT_THAT(late.at(3).failure().message,
              HasSubstr("damaged at byte 2048, behind the last sample of the index"));
  put({0, 1024, 2048, 3072, 4096, 5120, 6144, 7168, 8192});  // one that was made before
  const auto early = or_throw(WebDatasetShard::open(folder + "/s.tar"));
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(static_cast<bool>(early.at(i)), i < 2 || i > 4) << i;
}

// Text in UTF-16, written from its code units.
std::string wide(const std::u16string& text, bool is_big) {
  std::string out;
  for (const char16_t unit : text)
    for (const int byte : {0, 1}) out += static_cast<char>(unit >> 8 * (is_big ? 1 - byte : byte) & 0xFF);
  return out;
}

TEST_F(WebDatasetFolder, JsonIsReadInUtf8WhateverProgramSavedIt) {
  const std::string text = "{\"place\": \"a café\"}";
  const std::u16string units = u"{\"place\": \"a café\"}";
  for (const auto& stored :
       {text, "\xEF\xBB\xBF" + text, wide(u"\xFEFF" + units, false), wide(u"\xFEFF" + units, true),
        wide(units, false), std::string("{\"place\": \"a caf\xE9\"}")}) {
    write("s.tar", tar({{"a.json", stored}, {"a.facts.json", stored}, {"a.bin", stored}, {"b.json", "{}"}}));
    const auto shard = or_throw(WebDatasetShard::open_or_scan(folder + "/s.tar"));
    const auto entry = or_throw(index_webdataset(folder + "/s.tar")).at(0);
    for (const auto& sample : {or_throw(shard.at(0)), or_throw(read_webdataset(entry))})
      EXPECT_EQ(shown(sample), "a|json=" + text + "|facts.json=" + text + "|bin=" + stored);
  }
}

TEST_F(WebDatasetFolder, FieldsAreInLowerCaseAsWebdatasetReadsThem) {
  write("s.tar", tar({{"a.MP4", "1"}, {"a.Json", "2"}, {"a.CLIP.npy", "3"}}));
  put({0, 3072});
  const auto shard = or_throw(WebDatasetShard::open(folder + "/s.tar"));
  const auto sample = or_throw(shard.at(0));
  for (const char* name : {"mp4", "json", "CLIP.npy"}) {
    EXPECT_TRUE(sample.find(name)) << name;
    EXPECT_TRUE(*shard.field(0, name)) << name;
  }
  EXPECT_EQ(read_all(tar({{"a.MP4", "1"}})), (std::vector<std::string>{"a: mp4=1"}));
  EXPECT_THAT(read_all(tar({{"a.MP4", "1"}, {"a.mp4", "2"}})).back(), HasSubstr("is a second 'a.mp4'"));
}

TEST_F(WebDatasetFolder, AFieldThatIsZerosIsMissed) {
  const std::string whole = tar({{"a.txt", "1"}, {"a.cls", "2"}, {"b.txt", "3"}});
  write("s.tar", with_hole(whole, 1024, 2048));  // a.cls
  put({0, 2048, 3072});
  const auto shard = or_throw(WebDatasetShard::open(folder + "/s.tar"));
  for (const auto& failure : {shard.at(0).failure(), shard.key(0).failure(), shard.field(0, "cls").failure()})
    EXPECT_THAT(failure.message, HasSubstr("zeros at byte 1024")) << failure.message;
  EXPECT_EQ(shard.at(1)->key(), "b");
}

TEST_F(WebDatasetFolder, DamageIsNamedByKeyAndPlaceInTheShard) {
  std::string bytes = tar({{"a.txt", "1"}, {"a.cls", "1"}, {"b.txt", "2"}, {"b.cls", "2"}});
  bytes.replace(3 * 1024 + 148, 6, "777777");  // the checksum of b.cls
  write("s.tar", bytes);
  put({0, 2048, 4096});
  const auto shard = or_throw(WebDatasetShard::open(folder + "/s.tar"));
  EXPECT_EQ(shard.at(0)->key(), "a");
  EXPECT_THAT(shard.at(1).failure().message,
              HasSubstr("/s.tar: the sample 'b' at byte 2048: entry 2 is damaged"));
  bytes.replace(2 * 1024 + 148, 6, "777777");  // of b.txt
  write("s.tar", bytes);
  EXPECT_THAT(or_throw(WebDatasetShard::open(folder + "/s.tar")).at(1).failure().message,
              HasSubstr("/s.tar: the sample at byte 2048: no header is there; "));
}

TEST_F(WebDatasetFolder, ReadsTheKeyAndOneFieldOfASample) {
  const Files files{
      {"a.mp4", std::string(300'000, 'x')}, {"a.json", "{}"}, {"b.txt", "sea"}, {"caf\xC3\xA9.json", "[]"}};
  for (const auto& format : {archive_write_set_format_ustar, archive_write_set_format_pax}) {
    write("s.tar", tar(files, format));
    const auto shard = WebDatasetShard::open_or_scan(folder + "/s.tar");
    ASSERT_TRUE(shard) << shard.failure().message;
    const auto field = [&](size_t i, const char* name) {
      const auto bytes = or_throw(shard->field(i, name));
      return bytes ? std::string(bytes->begin(), bytes->end()) : "none";
    };
    EXPECT_EQ(field(0, "json"), "{}");
    EXPECT_EQ(field(0, "mp4").size(), 300'000u);
    EXPECT_EQ(field(1, "json"), "none");
    EXPECT_EQ(field(2, "json"), "[]");
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(or_throw(shard->key(i)), shard->at(i)->key());
    EXPECT_EQ(shard->field(3, "json").failure().code, KINORA_ERROR_INVALID);
  }
}

}  // namespace
}  // namespace kinora::core
