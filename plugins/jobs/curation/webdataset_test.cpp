#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/webdataset_files.hpp"
#include "kinora/webdataset_reader.hpp"
#include "plugins/jobs/curation/webdataset_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace webdataset_testing;

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
