#include "plugins/jobs/curation/webdataset.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fstream>
#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/bytes_in_memory.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Files = std::vector<std::pair<std::string, std::string>>;
using Prepare = std::function<void(struct archive*)>;

void ustar(struct archive* a) { archive_write_set_format_ustar(a); }

std::string tar(const Files& files, const Prepare& prepare = ustar) {
  std::string out;
  const auto write = [](struct archive*, void* to, const void* data, size_t n) -> la_ssize_t {
    static_cast<std::string*>(to)->append(static_cast<const char*>(data), n);
    return static_cast<la_ssize_t>(n);
  };
  struct archive* a = archive_write_new();
  prepare(a);
  archive_write_set_bytes_in_last_block(a, 1);
  EXPECT_EQ(archive_write_open(a, &out, nullptr, write, nullptr), ARCHIVE_OK);
  for (const auto& [name, bytes] : files) {
    archive_entry* e = archive_entry_new();
    archive_entry_set_pathname(e, name.c_str());
    archive_entry_set_filetype(e, name.ends_with('/') ? AE_IFDIR : AE_IFREG);
    archive_entry_set_perm(e, 0644);
    archive_entry_set_size(e, static_cast<la_int64_t>(bytes.size()));
    EXPECT_GE(archive_write_header(a, e), ARCHIVE_WARN) << archive_error_string(a);
    archive_write_data(a, bytes.data(), bytes.size());
    archive_entry_free(e);
  }
  archive_write_close(a);
  archive_write_free(a);
  return out;
}

std::shared_ptr<const ByteSource> source(const std::string& bytes) {
  return test::bytes_in_memory("shard-000012.tar",
                               {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

// "KEY: FIELD=BYTES FIELD=BYTES", one a sample; the last may be "error: ...".
std::vector<std::string> read_all(const std::string& bytes, const WebDatasetLimits& limits = {}) {
  std::vector<std::string> out;
  auto reader = WebDatasetReader::over(source(bytes), limits);
  if (!reader) return {"error: " + reader.failure().message};
  for (;;) {
    const auto sample = reader->next();
    if (!sample) out.push_back("error: " + sample.failure().message);
    if (!sample || !*sample) return out;
    std::string text = (*sample)->key() + ":";
    for (const auto& f : (*sample)->fields)
      text += " " + f.name + "=" + std::string(f.bytes.begin(), f.bytes.end());
    out.push_back(text);
  }
}

TEST(WebDataset, GroupsNeighboursWithOneKey) {
  EXPECT_THAT(read_all(tar({{"a.txt", "1"}, {"a.shots.json", "2"}, {"b.txt", ""}, {"a.mp4", "4"}})),
              ElementsAre("a: txt=1 shots.json=2", "b: txt=", "a: mp4=4"));
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
  const auto put = [&](const std::vector<uint64_t>& offsets) {
    write("s.tar.idx", std::string(reinterpret_cast<const char*>(offsets.data()), offsets.size() * 8));
  };
  put({0, 1024, 2048});
  const auto shard = WebDatasetShard::open(folder + "/s.tar");
  ASSERT_TRUE(shard) << shard.failure().message;
  ASSERT_EQ(shard->size(), 2u);
  EXPECT_EQ(shard->at(1)->key(), "b");
  EXPECT_EQ(shard->at(0)->key(), "a");
  EXPECT_EQ(shard->at(2).failure().code, KINORA_ERROR_INVALID);
  for (const auto& bad : {std::vector<uint64_t>{}, {0, 5000}, {0, 0}, {1024, 0}}) {
    put(bad);
    EXPECT_THAT(WebDatasetShard::open(folder + "/s.tar").failure().message, HasSubstr("not an index of"));
  }
  put({0, 2048, bytes.size()});
  const auto off = WebDatasetShard::open(folder + "/s.tar");
  EXPECT_THAT(off->at(1).failure().message, HasSubstr("no sample at byte 2048"));
  write("twice.tar", bytes);
  EXPECT_THAT(index_webdataset(folder).failure().message, HasSubstr("a second sample 'a'"));
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
