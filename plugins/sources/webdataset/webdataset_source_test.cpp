#include "webdataset_source.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/testing.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/tar_bytes.hpp"

namespace kinora::webdataset {
namespace {

namespace fs = std::filesystem;
using test::refusal;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;
const kinora::testing::Run kRun;

class TarSource : public ::testing::Test {
 protected:
  void SetUp() override {
    kinora::testing::start();
    std::string name = (fs::temp_directory_path() / "kinora-source-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { fs::remove_all(folder); }

  void write(const std::string& name, const std::string& bytes) {
    fs::create_directories(fs::path(folder + "/" + name).parent_path());
    std::ofstream(folder + "/" + name, std::ios::binary) << bytes;
  }
  // Samples PREFIX0, PREFIX1, ... with the fields txt and bin.
  static test::TarFiles samples(const std::string& prefix, int n) {
    test::TarFiles files;
    for (int i = 0; i < n; ++i) {
      const std::string key = prefix + std::to_string(i);
      files.emplace_back(key + ".txt", key);
      files.emplace_back(key + ".bin", std::string(static_cast<size_t>(i * 397 % 1500), 'x'));
    }
    return files;
  }
  // Shards with all there is: a plain one, one with two damaged samples, one that is cut off, one of a single
  // sample, one that is compressed. Returns the keys that can be read.
  Words write_all() {
    auto damaged = samples("b", 4);
    damaged.insert(damaged.begin() + 2, {{"twice.txt", "1"}, {"twice.txt", "2"}});
    damaged.insert(damaged.end(), {{"last.txt", "1"}, {"last.txt", "2"}});
    const std::string cut = test::tar_bytes(samples("c", 4));
    write("a.tar", test::tar_bytes(samples("a", 5)));
    write("b.tar", test::tar_bytes(damaged));
    write("c.tar", cut.substr(0, cut.size() - 1024 - 600));
    write("d.tar", test::tar_bytes(samples("d", 1)));
    write("e.tar", test::tar_bytes(samples("e", 3), [](struct archive* a) {
            archive_write_add_filter_gzip(a);
            archive_write_set_format_ustar(a);
          }));
    return {"a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2", "b3", "c0", "c1", "c2", "d0", "e0", "e1", "e2"};
  }
  std::unique_ptr<WebDatasetSource> open(uint64_t shard = 0, uint64_t shards = 1) const {
    auto source = std::make_unique<WebDatasetSource>(WebDatasetSource::Options{});
    source->open(folder, shard, shards, kRun);
    return source;
  }
  // The key of the next sample, "!" for damage, "" at the end.
  static std::string next(WebDatasetSource& source) {
    try {
      const auto sample = source.next(kRun);
      if (!sample) return "";
      EXPECT_EQ(sample->need("txt"), sample->key());
      return std::string(sample->key());
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_DATA) << e.what();
      return "!";
    }
  }
  static Words rest(WebDatasetSource& source) {
    Words out;
    for (std::string key = next(source); !key.empty() && out.size() < 1000; key = next(source))
      out.push_back(key);
    return out;
  }
  static Words without_damage(Words keys) {
    std::erase(keys, "!");
    return keys;
  }
  std::string folder;
};

TEST_F(TarSource, GivesKeysAndFieldsInTheOrderOfTheShards) {
  write("b.tar", test::tar_bytes(samples("b", 2)));
  write("a.tar", test::tar_bytes({{"x/y.z.json", "{}"}, {"x/y.mp4", std::string(5000, 'm')}}));
  const auto source = open();
  const auto first = source->next(kRun);
  EXPECT_EQ(first->key(), "x/y");
  ASSERT_EQ(first->fields().size(), 2U);
  EXPECT_EQ(first->need("z.json"), "{}");
  EXPECT_EQ(first->need("mp4"), std::string(5000, 'm'));
  const std::string second = source->state();
  EXPECT_THAT(rest(*source), ElementsAre("b0", "b1"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next(*source), "") << "the end is the end";
  source->restore(second);
  EXPECT_THAT(rest(*source), ElementsAre("b0", "b1"));
}

TEST_F(TarSource, IsOpenedAfterAnOpenThatFailed) {
  WebDatasetSource source({});
  EXPECT_THAT(refusal([&] { source.open(folder + "/none", 0, 1, kRun); }), HasSubstr("none"));
  EXPECT_THAT(refusal([&] { source.next(kRun); }), HasSubstr("not open"));
  write("a.tar", test::tar_bytes(samples("a", 3)));
  EXPECT_THAT(refusal([&] { source.open(folder, 2, 2, kRun); }), HasSubstr("no part 2 of 2"));
  source.open(folder, 1, 2, kRun);
  EXPECT_EQ(source.state(), open(1, 2)->state());
  EXPECT_EQ(rest(source), rest(*open(1, 2)));
}

TEST_F(TarSource, PartsHaveEverySampleOnce) {
  const Words all = write_all();
  for (uint64_t n = 1; n <= 8; ++n) {
    Words together;
    for (uint64_t i = 0; i < n; ++i) {
      const Words part = without_damage(rest(*open(i, n)));
      EXPECT_TRUE(std::is_sorted(part.begin(), part.end())) << "in the order of the shards";
      if (n <= 5) {
        for (const auto& key : part) EXPECT_EQ(static_cast<uint64_t>(key[0] - 'a') % n, i) << key;
      }
      together.insert(together.end(), part.begin(), part.end());
    }
    std::sort(together.begin(), together.end());
    EXPECT_EQ(together, all) << n << " parts";
  }
}

TEST_F(TarSource, ContinuesExactlyFromEveryState) {
  write_all();
  for (const auto& [i, n] : {std::pair<uint64_t, uint64_t>{0, 1}, {1, 2}, {0, 6}, {5, 6}}) {
    const Words whole = rest(*open(i, n));
    const auto first = open(i, n);
    for (size_t k = 0; k <= whole.size(); ++k) {
      const std::string state = first->state();
      const auto second = open(i, n);
      for (size_t r = 0; r < k % 3; ++r) next(*second);  // restore() works wherever the source is
      second->restore(state);
      EXPECT_EQ(second->state(), state);
      EXPECT_EQ(rest(*second), Words(whole.begin() + static_cast<Words::difference_type>(k), whole.end()))
          << "part " << i << " of " << n << ", after " << k << " samples: " << state;
      EXPECT_LT(state.size(), 300U);
      next(*first);
    }
  }
}

TEST_F(TarSource, DamageIsNamedAndCostsNothingElse) {
  write_all();
  const auto source = open();
  Words said;
  for (bool ended = false; !ended;) {
    try {
      ended = !source->next(kRun);
    } catch (const Error& e) {
      said.emplace_back(e.what());
    }
  }
  EXPECT_THAT(said, ElementsAre(HasSubstr("b.tar: entry 4 is a second 'twice.txt'"),
                                HasSubstr("b.tar: entry 12 is a second 'last.txt'"),
                                HasSubstr("c.tar: entry 8 is truncated")));
  fs::remove(folder + "/c.tar");
  write(".nv-meta/.info.json", R"({"shard_counts": {"c.tar": 4, "a.tar": 5}})");
  EXPECT_EQ(rest(*open()).front(), "!") << "a shard that is not there";
  write("a.tar", "no archive");
  EXPECT_THAT(rest(*open()), ElementsAre("!", "!"));
}

// Archives of 16 samples of two fields, 2048 bytes each, which are damaged in ways that leave the headers of `left` of
// them.
struct Damaged {
  const char* name;
  std::string bytes;
  size_t left;
};
std::vector<Damaged> damaged_archives() {
  test::TarFiles files;
  for (int i = 0; i < 16; ++i)
    for (const char* field : {".bin", ".txt"}) {
      const std::string key = (i < 10 ? "a0" : "a") + std::to_string(i);
      files.emplace_back(key + field, key);
    }
  const std::string whole = test::tar_bytes(files);
  const auto with = [&](size_t at, size_t n, char c) { return std::string(whole).replace(at, n, n, c); };
  std::string between = whole;
  between.insert(8 * 2048, std::string(700, 'g'));
  std::string within = whole;
  within.insert(8 * 2048 + 1024, std::string(700, 'g'));
  std::string twice = with(12 * 2048, 512, 'g').replace(4 * 2048, 512, 512, '\0');
  return {{"a hole over the header of a sample", with(5 * 2048, 512, '\0'), 16},
          {"a hole over three samples", with(5 * 2048, 3 * 2048, '\0'), 13},
          {"garbage between two members", between, 16},
          {"garbage between the members of one sample", within, 16},
          {"garbage over a header", with(9 * 2048, 512, 'g'), 16},
          {"the first header is garbage", with(0, 512, 'g'), 16},
          {"a hole and garbage", twice, 16},
          {"cut in a content", whole.substr(0, 11 * 2048 + 1024 + 515), 12},
          {"cut between two samples", whole.substr(0, 11 * 2048), 11}};
}

TEST_F(TarSource, EverySampleBehindDamageIsAFailure) {
  for (const auto& [name, bytes, left] : damaged_archives()) {
    write("a.tar", bytes);
    write("b.tar", test::tar_bytes(samples("b", 1)));
    const Words all = rest(*open());
    EXPECT_EQ(all.size(), left + 1) << name;
    EXPECT_EQ(all.back(), "b0") << name;
    EXPECT_EQ(without_damage(all).size() + static_cast<size_t>(std::count(all.begin(), all.end(), "!")),
              all.size());
    const auto first = open();
    for (size_t k = 0; k <= all.size(); ++k) {
      const auto second = open();
      second->restore(first->state());
      EXPECT_EQ(rest(*second), Words(all.begin() + static_cast<Words::difference_type>(k), all.end()))
          << name << ", after " << k;
      next(*first);
    }
    // Parts of one shard have the failures behind the damage once, and each has the damaged place.
    size_t failures = 0;
    for (uint64_t i = 0; i < 3; ++i) {
      const Words part = rest(*open(i, 3));
      failures += static_cast<size_t>(std::count(part.begin(), part.end(), "!"));
    }
    EXPECT_EQ(failures, static_cast<size_t>(std::count(all.begin(), all.end(), "!")) + 2) << name;
  }
}

TEST_F(TarSource, NamesWhatIsBehindDamage) {
  write("a.tar", damaged_archives()[0].bytes);
  const auto source = open();
  std::vector<std::string> said;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(source->next(kRun));
  for (int i = 0; i < 3; ++i) said.push_back(refusal([&] { source->next(kRun); }));
  EXPECT_THAT(said[0], HasSubstr("a.tar: entry 11 is missing: zeros at byte 10240"));
  EXPECT_THAT(said[1], HasSubstr("a.tar: the sample 'a05' at byte 11264 is behind the damage of its shard"));
  EXPECT_THAT(said[2], HasSubstr("'a06' at byte 12288"));
}

TEST_F(TarSource, RefusesWhatIsNoStateOfItsData) {
  write_all();
  const auto source = open(1, 2);
  next(*source);
  next(*source);
  const std::string state = source->state();
  const auto refused = [](WebDatasetSource& by, std::string_view bytes) {
    const std::string before = by.state(), said = refusal([&] { by.restore(bytes); });
    EXPECT_EQ(by.state(), before) << "the position stays";
    return said;
  };
  EXPECT_THAT(refused(*open(0, 2), state), HasSubstr("is of part 1 of 2, and this is part 0 of 2"));
  EXPECT_THAT(refused(*open(1, 3), state), HasSubstr("is of part 1 of 2, and this is part 1 of 3"));
  for (size_t i = 0; i < state.size(); ++i) {
    std::string other = state;
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_THAT(refused(*source, other), HasSubstr("not one of source/webdataset")) << i;
    EXPECT_THAT(refused(*source, state.substr(0, i)), HasSubstr("not one of source/webdataset")) << i;
  }
  write("b.tar", test::tar_bytes(samples("z", 6)));
  EXPECT_THAT(refused(*open(1, 2), state), HasSubstr("b.tar: ")) << "the same names, other samples";
  fs::rename(folder + "/a.tar", folder + "/other.tar");
  EXPECT_THAT(refused(*open(1, 2), state), HasSubstr("5 shards, and here are 5, or others"));
}

TEST_F(TarSource, CountsWhatTheIndexSaysForEveryPart) {
  EXPECT_EQ((write_all(), open()->count()), std::nullopt) << "no index";
  write("b.tar", test::tar_bytes(samples("b", 4)));
  write(".nv-meta/.info.json", R"({"shard_counts": {"a.tar": 5, "b.tar": 4, "d.tar": 1}})");
  for (uint64_t n = 1; n <= 7; ++n)
    for (uint64_t i = 0; i < n; ++i)
      EXPECT_EQ(open(i, n)->count(), rest(*open(i, n)).size()) << i << "/" << n;
  write(".nv-meta/.info.json", R"({"shard_counts": {}})");
  EXPECT_EQ(open()->count(), 0U);
  EXPECT_EQ(rest(*open()), Words());
}

TEST_F(TarSource, RefusesAPartThatIsNot) {
  write_all();
  EXPECT_THAT(refusal([&] { open(2, 2); }), HasSubstr("no part 2 of 2"));
  EXPECT_THAT(refusal([&] { open(0, 0); }), HasSubstr("no part 0 of 0"));
  WebDatasetSource closed({});
  EXPECT_THAT(refusal([&] { closed.next(kRun); }), HasSubstr("not open"));
}

}  // namespace
}  // namespace kinora::webdataset
