#include "plugins/jobs/curation/webdataset.hpp"

#include <atomic>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/webdataset_files.hpp"
#include "kinora/webdataset_reader.hpp"
#include "plugins/jobs/curation/plain_tar.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/tar_bytes.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Files = test::TarFiles;

std::string tar(const Files& files, const std::function<void(struct archive*)>& prepare = test::ustar) {
  const std::string out = test::tar_bytes(files, prepare);
  EXPECT_FALSE(out.empty());
  return out;
}

RandomBytes source(const std::string& bytes) {
  return {"shard-000012.tar", bytes.size(), [bytes](uint64_t offset, void* to, uint64_t size) {
            return bytes.copy(static_cast<char*>(to), size, std::min<uint64_t>(offset, bytes.size()));
          }};
}

// "KEY: FIELD=BYTES FIELD=BYTES", one a sample; the last may be "error: ...".
std::vector<std::string> read_all(const std::string& bytes, const WebDatasetLimits& limits = {}) {
  std::vector<std::string> out;
  try {
    WebDatasetReader reader(source(bytes), limits);
    while (const auto sample = reader.next()) {
      std::string text = sample->key() + ":";
      for (const auto& f : sample->fields)
        text += " " + f.name + "=" + std::string(f.bytes.begin(), f.bytes.end());
      out.push_back(text);
    }
  } catch (const Error& e) {
    out.push_back(std::string("error: ") + e.what());
  }
  return out;
}

// The sample that libarchive's reader makes of the bytes, or nothing.
std::optional<WebDatasetSample> by_libarchive(const std::string& bytes) {
  try {
    return WebDatasetReader(source(bytes), {.need_end = false}).next();
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string shown(const std::optional<WebDatasetSample>& sample) {
  if (!sample) return "nothing";
  std::string out = sample->key();
  for (const auto& f : sample->fields)
    out += "|" + f.name + "=" + std::string(f.bytes.begin(), f.bytes.end());
  return out;
}

std::optional<WebDatasetSample> plain(const std::string& bytes) {
  return plain_sample({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

TEST(PlainSample, IsLibarchivesOfPlainMembers) {
  const std::string far = std::string(90, 'd') + "/" + std::string(60, 'k');
  const std::vector<Files> samples{{{"a.txt", "1"}, {"a.json", "{}"}},
                                   {{far + ".mp4", std::string(3000, 'x')}, {far + ".txt", ""}},
                                   {{"d.e/a.b.c", std::string(512, 'y')}},
                                   {{"__notes__/a.txt", "skipped"}, {"a.txt", "1"}}};
  for (const auto& files : samples) {
    std::string bytes = tar(files);
    bytes.resize(bytes.size() - 1024);  // without the end of the archive
    EXPECT_EQ(shown(plain(bytes)), shown(by_libarchive(bytes)));
    EXPECT_NE(shown(plain(bytes)), "nothing");
  }
}

TEST(PlainSample, LeavesTheRestToLibarchive) {
  const auto of = [](const Files& files, const std::function<void(struct archive*)>& format = test::ustar) {
    std::string bytes = tar(files, format);
    return bytes.substr(0, bytes.size() - 1024);
  };
  EXPECT_FALSE(plain(of({{"a.txt", "1"}, {"b.txt", "2"}})));  // two keys
  EXPECT_FALSE(plain(of({{"a.txt", "1"}, {"a.txt", "2"}})));  // a field twice
  EXPECT_FALSE(plain(of({{"d/", ""}})));                      // a folder
  EXPECT_FALSE(plain(of({{"caf\xC3\xA9.txt", "1"}})));        // not ASCII
  EXPECT_FALSE(plain(of({{std::string(300, 'k') + ".txt", "1"}}, archive_write_set_format_gnutar)));
  EXPECT_FALSE(plain(""));
  EXPECT_FALSE(plain(std::string(512, '\0')));
}

TEST(PlainSample, ReadsHeadersAndOneFieldAlone) {
  std::string bytes = tar({{"a.mp4", std::string(5000, 'x')}, {"a.json", "{\"n\": 1}"}, {"a.txt", "sea"}});
  bytes.resize(bytes.size() - 1024);
  uint64_t taken = 0;
  const ReadBytes read = [&](uint64_t offset, void* to, uint64_t size) {
    const uint64_t n = bytes.copy(static_cast<char*>(to), size, std::min<uint64_t>(offset, bytes.size()));
    taken += n;
    return n;
  };
  EXPECT_EQ(shown(plain_sample(read, bytes.size(), "json")), "a|mp4=|json={\"n\": 1}|txt=");
  EXPECT_EQ(taken, 3 * 512 + 8u);
  EXPECT_EQ(shown(plain_sample(read, bytes.size(), "npy")), "a|mp4=|json=|txt=");
  const uint64_t whole = bytes.size();
  bytes.resize(700);  // the index promises more than there is
  EXPECT_FALSE(plain_sample(read, whole, "mp4"));
  EXPECT_FALSE(plain_sample(read, whole, "txt"));
}

// Every byte of the headers changed: the sample is libarchive's, or it is left to libarchive.
TEST(PlainSample, OfDamagedHeadersIsNeverAnother) {
  std::string whole = tar({{"a.txt", "12345"}, {"a.json", "{}"}});
  whole.resize(whole.size() - 1024);
  for (size_t at = 0; at < whole.size(); ++at)
    for (const char to : {'\0', '7', ' ', '\x80'}) {
      std::string bytes = whole;
      bytes[at] = to;
      const auto found = plain(bytes);
      EXPECT_TRUE(!found || shown(found) == shown(by_libarchive(bytes))) << at;
    }
}

// 300 samples of about 10 KB, of which one has 400 KB, and an index. Reads are counted.
class CountedShard {
 public:
  explicit CountedShard(std::string name) : name_(std::move(name)) {
    for (size_t i = 0; i < 300; ++i) {
      offsets_.push_back(bytes_.size());
      const std::string content(i == 200 ? 400'000 : 9'000 + i * 7, static_cast<char>('a' + i % 26));
      const std::string key = fmt::format("k{:03}", i);
      const std::string archive = tar({{key + ".jpg", content}, {key + ".txt", std::to_string(i)}});
      bytes_ += archive.substr(0, archive.size() - 1024);
      shown_.push_back(key + "|jpg=" + content + "|txt=" + std::to_string(i));
    }
    offsets_.push_back(bytes_.size());
    bytes_.append(1024, '\0');
  }

  // Makes the checksum of a sample's first header wrong.
  void damage(size_t i) { bytes_.replace(offsets_[i] + 148, 6, "777777"); }
  const std::string& expected(size_t i) const { return shown_[i]; }
  size_t size() const { return shown_.size(); }
  // How often the shard was read since the last call.
  int64_t reads() { return reads_.exchange(0); }

  WebDatasetShard open() {
    return or_throw(WebDatasetShard::open(
        name_, {}, [this](std::string_view uri) -> Result<std::shared_ptr<const ByteSource>> {
          if (uri == name_)
            return std::shared_ptr<const ByteSource>(std::make_shared<Bytes>(name_, bytes_, &reads_));
          return std::shared_ptr<const ByteSource>(
              std::make_shared<Bytes>(std::string(uri),
                                      std::string(reinterpret_cast<const char*>(offsets_.data()),
                                                  offsets_.size() * sizeof offsets_[0]),
                                      &index_reads_));
        }));
  }

 private:
  class Bytes final : public ByteSource {
   public:
    Bytes(std::string name, std::string bytes, std::atomic<int64_t>* reads)
        : name_(std::move(name)), bytes_(std::move(bytes)), reads_(reads) {}
    const std::string& name() const override { return name_; }
    uint64_t size() const override { return bytes_.size(); }
    Result<uint64_t> read(uint64_t offset, void* to, uint64_t size) const override {
      ++*reads_;
      return bytes_.copy(static_cast<char*>(to), size, std::min<uint64_t>(offset, bytes_.size()));
    }

   private:
    std::string name_, bytes_;
    std::atomic<int64_t>* reads_;
  };

  std::string name_, bytes_;
  std::vector<uint64_t> offsets_;
  std::vector<std::string> shown_;
  std::atomic<int64_t> reads_{0}, index_reads_{0};
};

TEST(BlockReader, SamplesInOrderCostFewReadsAndAreTheSame) {
  CountedShard counted("shards/s.tar");
  const auto shard = counted.open();
  counted.reads();
  for (size_t i = 0; i < counted.size(); ++i) {
    const auto sample = or_throw(shard.at(i));
    ASSERT_EQ(shown(sample), counted.expected(i));
    ASSERT_EQ(sample.where.shard, "shards/s.tar");
    ASSERT_EQ(sample.where.size, or_throw(shard.bytes(i)));
  }
  // Three alone, the large one alone, and 3.6 MB in blocks of 1 MiB, of which one is cut short by the large one.
  EXPECT_LE(counted.reads(), 3 + 1 + 5);
  for (size_t i = counted.size(); i-- > 0;) ASSERT_EQ(shown(or_throw(shard.at(i))), counted.expected(i));
  EXPECT_EQ(counted.reads(), static_cast<int64_t>(counted.size())) << "backwards, each is read alone";
}

TEST(BlockReader, ADamagedSampleCostsNoOther) {
  CountedShard counted("s.tar");
  counted.damage(50);
  const auto shard = counted.open();
  for (size_t i = 0; i < counted.size(); ++i) {
    const auto sample = shard.at(i);
    ASSERT_EQ(bool(sample), i != 50) << i;
    if (sample)
      ASSERT_EQ(shown(*sample), counted.expected(i));
    else
      EXPECT_EQ(sample.failure().code, KINORA_ERROR_DATA);
  }
}

TEST(BlockReader, AStorageIsReadSampleBySample) {
  CountedShard counted("s3://bucket/s.tar");
  const auto shard = counted.open();
  counted.reads();
  for (size_t i = 0; i < counted.size(); ++i) ASSERT_EQ(shown(or_throw(shard.at(i))), counted.expected(i));
  EXPECT_EQ(counted.reads(), static_cast<int64_t>(counted.size()));
}

// Threads take the samples of one shard in turns, as the readers of a training do.
TEST(BlockReader, ThreadsGetTheSameSamples) {
  CountedShard counted("s.tar");
  const auto shard = counted.open();
  std::atomic<size_t> next{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (size_t i = 0; (i = next++) < counted.size();)
        wrong += shown(or_throw(shard.at(i))) != counted.expected(i) ? 1 : 0;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
}

TEST(WebDataset, GroupsNeighboursWithOneKey) {
  EXPECT_THAT(read_all(tar({{"a.txt", "1"}, {"a.shots.json", "2"}, {"b.txt", ""}, {"a.mp4", "4"}})),
              ElementsAre("a: txt=1 shots.json=2", "b: txt=", "a: mp4=4"));
}

TEST(WebDataset, ADotAndSlashAreNoPartOfAKey) {
  const Files files{
      {"./", ""}, {"./a.txt", "1"}, {"./d/b.txt", "2"}, {"./.c.txt", "3"}, {"./__notes__/d.txt", "4"}};
  EXPECT_THAT(read_all(tar(files)), ElementsAre("a: txt=1", "d/b: txt=2"));
  std::string bytes = tar({{"./a.txt", "1"}, {"./a.cls", "2"}});
  bytes.resize(bytes.size() - 1024);
  EXPECT_EQ(shown(plain(bytes)), "a|txt=1|cls=2");
}

TEST(WebDataset, PassesOverWhatIsNoSample) {
  EXPECT_THAT(read_all(tar({{"__notes__", "x"},
                            {"__notes__/a.txt", "x"},
                            {"d/", ""},
                            {"README", "x"},
                            {".hidden", "x"},
                            {"d.e/a.txt", "1"},
                            {"__x.txt", "2"}})),
              ElementsAre("d.e/a: txt=1", "__x: txt=2"));
}

TEST(WebDataset, ReadsLongAndForeignNamesInAnyLocale) {
  const std::string name = std::string(120, 'd') + "/" + std::string(150, 'k'), foreign = "caf\xC3\xA9";
  for (const auto& format : {archive_write_set_format_pax_restricted, archive_write_set_format_pax,
                             archive_write_set_format_gnutar}) {
    EXPECT_THAT(read_all(tar({{name + ".txt", "1"}, {foreign + ".txt", "2"}}, format)),
                ElementsAre(name + ": txt=1", foreign + ": txt=2"));
  }
  EXPECT_THAT(read_all(tar({{foreign + ".txt", "2"}})), ElementsAre(foreign + ": txt=2"));
}

TEST(WebDataset, ReadsGzip) {
  const auto gzip = [](struct archive* a) {
    archive_write_add_filter_gzip(a);
    archive_write_set_format_ustar(a);
  };
  EXPECT_THAT(read_all(tar({{"a.txt", "1"}}, gzip)), ElementsAre("a: txt=1"));
}

TEST(WebDataset, SaysWhichEntryIsTruncatedAndByHowMuch) {
  const std::string whole = tar({{"a.txt", "1"}, {"b.mp4", std::string(8192, 'x')}});
  EXPECT_THAT(read_all(whole.substr(0, 1024 + 512 + 1024)),
              ElementsAre("error: shard-000012.tar: entry 2 is truncated (expected 8192 bytes, found 1024); "
                          "copy it again, or run the job that made it again"))
      << "it is unknown whether the sample before it was complete";
}

TEST(WebDataset, NoticesEveryPlaceWhereAShardCanBeCut) {
  const std::string whole = tar({{"a.txt", "1"}, {"b.mp4", std::string(700, 'x')}, {"c.txt", "3"}});
  const size_t end = whole.size() - 1024;
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    const auto all = read_all(whole.substr(0, cut));
    const bool whole_blocks = cut >= end + 512;
    EXPECT_EQ(all.back().starts_with("error: shard-000012.tar: "), !whole_blocks)
        << cut << ": " << all.back();
  }
  EXPECT_THAT(read_all(whole.substr(0, end)).back(),
              HasSubstr("cut off after entry 3 (no end-of-archive block at byte 3584)"));
  EXPECT_THAT(read_all(whole.substr(0, end), {.need_end = false}).back(), "c: txt=3");
}

TEST(WebDataset, BoundsItsMemory) {
  EXPECT_THAT(read_all(tar({{"a.txt", std::string(60, 'x')}, {"a.mp4", std::string(60, 'x')}}),
                       {.sample_bytes = 100}),
              ElementsAre(HasSubstr("entry 2 has 60 bytes where at most 40 may come")));
  // A header that claims 7 GiB in a file of 2 KiB.
  std::string lie = tar({{"a.txt", "1"}});
  lie.replace(124, 11, "70000000000");
  int sum = 8 * 32;
  for (int i = 0; i < 512; ++i)
    sum += i < 148 || i >= 156 ? static_cast<unsigned char>(lie[static_cast<size_t>(i)]) : 0;
  char text[16] = {};
  std::snprintf(text, sizeof text, "%06o", static_cast<unsigned>(sum));
  lie.replace(148, 7, std::string(text, 7));
  EXPECT_THAT(read_all(lie, {.sample_bytes = UINT64_MAX}),
              ElementsAre(HasSubstr("entry 1 is truncated (expected 7516192768 bytes, found 1536)")));
}

TEST(WebDataset, RefusesWhatIsNoArchiveAndFieldsThatComeTwice) {
  EXPECT_THAT(read_all(""), ElementsAre(HasSubstr("not a tar archive (empty)")));
  EXPECT_THAT(read_all(std::string(5000, 'x')), ElementsAre(HasSubstr("not a tar archive")));
  EXPECT_THAT(read_all(tar({{"a.txt", "1"}, {"a.txt", "2"}})),
              ElementsAre(HasSubstr("entry 2 is a second 'a.txt'")));
  Files many;
  for (int i = 0; i < 1001; ++i) many.emplace_back("a.f" + std::to_string(i), "");
  EXPECT_THAT(read_all(tar(many)), ElementsAre(HasSubstr("more than 1000 fields")));
}

TEST(WebDataset, DamageOfOneSampleCostsNoOther) {
  Files files{{"a.txt", "1"}, {"b.txt", "2"}, {"b.txt", "3"}, {"b.json", "4"}, {"c.txt", "5"}};
  for (int i = 0; i < 1001; ++i) files.emplace_back("d.f" + std::to_string(i), "");
  files.insert(
      files.end(),
      {{"e.mp4", std::string(200, 'x')}, {"e.txt", "6"}, {"f.txt", "7"}, {"g.txt", ""}, {"g.txt", ""}});
  for (const bool contents : {true, false}) {
    std::vector<std::string> keys, refused;
    WebDatasetReader reader(source(tar(files)), {.sample_bytes = 100});
    for (bool ended = false; !ended;) {
      try {
        const auto sample = contents ? reader.next() : reader.next_names();
        ended = !sample;
        if (sample) keys.push_back(sample->key());
      } catch (const Error& e) {
        ASSERT_FALSE(reader.broken()) << e.what();
        refused.push_back(reader.last().key);
      }
    }
    if (contents) {
      EXPECT_THAT(keys, ElementsAre("a", "c", "f"));
      EXPECT_THAT(refused, ElementsAre("b", "d", "e", "g"));
    } else {
      EXPECT_THAT(keys, ElementsAre("a", "c", "e", "f")) << "names have no size";
      EXPECT_THAT(refused, ElementsAre("b", "d", "g"));
    }
  }
}

TEST(WebDataset, ExpandsBracesAsAShellDoes) {
  EXPECT_THAT(expand_braces("a.tar"), ElementsAre("a.tar"));
  EXPECT_THAT(expand_braces("s-{008..011}.tar"),
              ElementsAre("s-008.tar", "s-009.tar", "s-010.tar", "s-011.tar"));
  EXPECT_THAT(expand_braces("{a,b}/{9..10}"), ElementsAre("a/9", "a/10", "b/9", "b/10"));
  for (const char* bad : {"{a}", "{a", "{1..}", "{2..1}", "{a..c}", "{0..99999999}", "{0..9999}{0..9999}",
                          "{18446744073709551615..18446744073709551616}"})
    EXPECT_NE(test::refusal([&] { expand_braces(bad); }), "nothing was refused") << bad;
  EXPECT_THAT(expand_braces("{18446744073709551614..18446744073709551615}").back(), "18446744073709551615");
}

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

// 1024 bytes a sample, n0 to n7.
Files eight() {
  Files out;
  for (int i = 0; i < 8; ++i) out.emplace_back(fmt::format("n{}.txt", i), "y");
  return out;
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

// The bytes with zeros in [begin, end), as where a broken download was preallocated.
std::string with_hole(std::string bytes, size_t begin, size_t end) {
  std::fill(bytes.begin() + static_cast<ptrdiff_t>(begin), bytes.begin() + static_cast<ptrdiff_t>(end), '\0');
  return bytes;
}

std::string gzipped(const std::string& bytes) {
  return tar({{"x", bytes}}, [](struct archive* a) {
    archive_write_add_filter_gzip(a);
    archive_write_set_format_raw(a);
  });
}

// A reader that stops at zeros says so, unless only zeros follow.
TEST(WebDataset, AHoleIsNoEndOfTheArchive) {
  const std::string whole = tar(eight());
  const size_t data = whole.size() - 1024 - 512;  // where the last content is
  for (const size_t size : {512u, 700u, 1024u, 1536u, 3000u})
    for (size_t at = 0; at + size <= data; at += 256) {
      const std::string bytes = with_hole(whole, at, at + size);
      for (const auto& stored : {bytes, gzipped(bytes)}) {
        const auto all = read_all(stored);
        const bool is_said = !all.empty() && all.back().starts_with("error: ");
        EXPECT_TRUE(is_said || all.size() == 8) << at << " " << size;
      }
    }
  for (const auto& stored : {with_hole(whole, 2048, 4096), gzipped(with_hole(whole, 2048, 4096))})
    EXPECT_THAT(read_all(stored).back(),
                HasSubstr("entry 3 is missing: zeros at byte 2048 and data behind them, up to byte 7681"));
  EXPECT_EQ(read_all(whole + std::string(100'100, '\0')).size(), 8u) << "padding";
  EXPECT_EQ(read_all(gzipped(whole + std::string(100'100, '\0'))).size(), 8u);
  EXPECT_THAT(read_all(whole + whole).back(), HasSubstr("entry 9 is missing"))
      << "tar -A joins, cat does not";
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

// Mutations of real archives, always the same ones: the fuzzer's property without the fuzzer.
TEST(WebDataset, SurvivesHostileBytes) {
  std::vector<std::string> seeds;
  for (const auto& format :
       {archive_write_set_format_pax, archive_write_set_format_gnutar, archive_write_set_format_ustar})
    seeds.push_back(tar({{"a.txt", "1"},
                         {std::string(90, 'd') + "/" + std::string(60, 'k') + ".json", "{}"},
                         {"b.mp4", std::string(3000, 'x')}},
                        format));
  std::mt19937 random(20240131);
  size_t samples = 0, errors = 0;
  for (int round = 0; round < 30000; ++round) {
    std::string bytes = seeds[random() % seeds.size()];
    for (uint32_t n = 1 + random() % 8; n > 0; --n) {
      const size_t at = random() % bytes.size();
      const uint32_t what = random() % 6;
      if (what == 0) bytes[at] = static_cast<char>(random());
      if (what == 1) bytes[at] = "0123456789 \0\xff/."[random() % 15];
      if (what == 2) bytes[at / 512 * 512 + random() % 512] ^= static_cast<char>(1u << random() % 8);
      if (what == 3) bytes.resize(at + 1);
      if (what == 4) bytes.insert(at / 512 * 512, bytes.substr(random() % bytes.size() / 512 * 512, 512));
      if (what == 5) {  // a header that is right except for one field
        std::string& b = bytes;
        const size_t h = at / 512 * 512;
        if (h + 512 > b.size()) continue;
        b[h + 100 + random() % 60] = "01234567"[random() % 8];
        unsigned sum = 256;
        for (size_t i = 0; i < 512; ++i)
          sum += i < 148 || i >= 156 ? static_cast<unsigned char>(b[h + i]) : 0;
        char text[8];
        std::snprintf(text, sizeof text, "%06o", sum & 0777777);
        b.replace(h + 148, 7, std::string(text, 7));
      }
    }
    const auto all = read_all(bytes, {.sample_bytes = 1 << 16, .need_end = false});
    ASSERT_LE(all.size(), bytes.size() / 512 + 1);
    for (const auto& text : all) ++(text.starts_with("error: ") ? errors : samples);
  }
  EXPECT_GT(samples, 10000u);
  EXPECT_GT(errors, 10000u);
}

}  // namespace
}  // namespace kinora::core
