#include "plugins/jobs/loading/data_order.hpp"

#include <filesystem>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/loading/data_state.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/tar_bytes.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Sets of shards: a has 30 samples in three, b has 10 in one.
class DataOrderOf : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "kinora-data-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    for (int shard = 0; shard < 3; ++shard) write("a", shard, 10);
    write("b", 0, 10);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& set, int shard, int samples, const std::string& field = "txt") {
    fs::create_directories(folder_ / set);
    test::TarFiles files;
    for (int i = 0; i < samples; ++i)
      files.emplace_back(fmt::format("{}{}-{}.{}", set, shard, i, field), std::to_string(i));
    std::ofstream(file_of(set, shard), std::ios::binary) << test::tar_bytes(files);
  }
  fs::path file_of(const std::string& set, int shard) const {
    return folder_ / set / fmt::format("s-{}.tar", shard);
  }
  DataInput set(const std::string& name, int64_t shuffle, double weight = 1) const {
    return {.path = (folder_ / name).string(), .parts = {}, .weight = weight, .shuffle = shuffle};
  }
  static std::vector<std::string> keys(DataOrder& order, uint64_t first, uint64_t count) {
    std::vector<std::string> out;
    for (uint64_t slot = first; slot < first + count; ++slot) out.push_back(order.key(slot));
    return out;
  }

  fs::path folder_;
};

TEST_F(DataOrderOf, OneSetTakesEachSampleOnceAnEpoch) {
  DataOrder plain(set("a", 0), 1), shuffled(set("a", 5), 1);
  EXPECT_EQ(plain.pass(), 30u);
  EXPECT_EQ(keys(plain, 9, 3), (std::vector<std::string>{"a0-9", "a1-0", "a1-1"}));
  for (const uint64_t epoch : {0, 1, 1000}) {
    auto all = keys(shuffled, epoch * 30, 30);
    EXPECT_NE(all, keys(plain, 0, 30));
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, keys(plain, 0, 30));
  }
}

TEST_F(DataOrderOf, ABlendHasItsSharesAndEachPartItsEpochs) {
  DataInput blend;
  blend.parts = {set("a", 5, 3), set("b", 5, 1)};
  DataOrder order(blend, 1);
  std::map<std::string, int> seen;
  for (const auto& key : keys(order, 0, 1024)) ++seen[key];
  EXPECT_EQ(order.pass(), 40u);
  int of_a = 0;
  for (const auto& [key, count] : seen) {
    const double each = key[0] == 'a' ? 768 / 30.0 : 256 / 10.0;
    EXPECT_NEAR(count, each, 1) << key;
    of_a += key[0] == 'a' ? count : 0;
  }
  EXPECT_EQ(of_a, 768);
}

// Each pass, the later ones included, has each sample of a part as often as its epochs say.
TEST_F(DataOrderOf, EveryPassOfABlendByEpochsTakesEachSampleThatOften) {
  write("few", 0, 7);
  write("many", 0, 1100);
  const auto expect = [&](const DataInput& blend, uint64_t pass, const std::map<std::string, int>& epochs) {
    DataOrder order(blend, 1);
    ASSERT_EQ(order.pass(), pass);
    for (const uint64_t number : {0, 1, 2, 1000}) {
      std::map<std::string, std::map<std::string, int>> seen;  // of each set, how often each key came
      for (const auto& key : keys(order, number * pass, pass)) ++seen[key.substr(0, key.find('0'))][key];
      for (const auto& [name, of_set] : epochs) {
        uint64_t samples = 0;
        for (const auto& [key, count] : seen[name]) {
          EXPECT_EQ(count, of_set) << key << " in pass " << number << " of " << pass;
          ++samples;
        }
        EXPECT_EQ(samples, name == "few" ? 7u : name == "b" ? 10u : 1100u) << name;
      }
    }
  };
  const auto part = [&](DataInput of, double epochs) {
    of.epochs = epochs;
    return of;
  };
  DataInput one, thrice, nested;
  one.parts = {part(set("few", 0), 1), part(set("b", 5), 1)};
  expect(one, 17, {{"few", 1}, {"b", 1}});
  thrice.parts = {part(set("b", 0), 3), part(set("many", 100), 1), part(set("few", 2), 2)};
  expect(thrice, 1144, {{"b", 3}, {"many", 1}, {"few", 2}});
  nested.parts = {part(one, 2), part(set("many", 0), 1)};
  expect(nested, 1134, {{"few", 2}, {"b", 2}, {"many", 1}});
}

TEST_F(DataOrderOf, HalfAnEpochAPassGoesOnInTheNext) {
  DataInput blend;
  blend.parts = {set("a", 5), set("b", 5)};
  blend.parts[0].epochs = 0.5;
  blend.parts[1].epochs = 1;
  DataOrder order(blend, 1);
  EXPECT_EQ(order.pass(), 25u);
  std::map<std::string, int> seen;
  for (const auto& key : keys(order, 0, 50)) ++seen[key];
  EXPECT_EQ(seen.size(), 40u);
  for (const auto& [key, count] : seen) EXPECT_EQ(count, key[0] == 'a' ? 1 : 2) << key;
}

TEST_F(DataOrderOf, APartThatWouldNeverBeTakenIsRefused) {
  const auto refusal = [&](double weight, double epochs) {
    DataInput blend;
    blend.parts = {set("a", 0), set("b", 0, weight)};
    if (epochs > 0) blend.parts[0].epochs = 1;
    blend.parts[1].epochs = epochs;
    return test::refusal([&] { DataOrder(blend, 1); });
  };
  EXPECT_THAT(refusal(1e-20, 0),
              testing::AllOf(HasSubstr("part 2 of the blend"), HasSubstr("/b: weight = 1e-20 gives")));
  EXPECT_THAT(refusal(1, 0.01), HasSubstr("epochs = 0.01 of 10 samples gives it no sample"));
  EXPECT_THAT(refusal(1, 1e300), HasSubstr("more than 2^48 samples a pass"));
}

TEST_F(DataOrderOf, BlendsNest) {
  DataInput inner, outer;
  inner.parts = {set("a", 0), set("b", 0)};
  inner.weight = 2;
  outer.parts = {inner, set("b", 0)};
  DataOrder order(outer, 1);
  std::map<size_t, int> of;
  for (uint64_t slot = 0; slot < 3 * 1024; ++slot) ++of[order.at(slot).set];
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(of[i], 1024, 2);
}

TEST_F(DataOrderOf, TheDigestNamesWhatTheOrderDependsOn) {
  const DataOrder order(set("a", 5), 1);
  EXPECT_EQ(order.digest(), DataOrder(set("a", 5), 1).digest());
  EXPECT_NE(order.digest(), DataOrder(set("a", 6), 1).digest());
  EXPECT_NE(order.digest(), DataOrder(set("a", 5), 2).digest());
  fs::create_directories(folder_ / "moved");
  fs::rename(folder_ / "a", folder_ / "moved/a");
  EXPECT_EQ(order.digest(), DataOrder(set("moved/a", 5), 1).digest());
  fs::rename(folder_ / "moved/a", folder_ / "a");
  write("a", 3, 1);
  EXPECT_NE(order.digest(), DataOrder(set("a", 5), 1).digest());
}

TEST_F(DataOrderOf, ADamagedSampleIsReplacedByAnotherOfItsSet) {
  {
    std::fstream file(file_of("b", 0), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(3 * 1024 + 148);
    file << "999999";  // the checksum of sample b0-3
  }
  const std::string index = [] {  // a damaged archive cannot be listed, but its index was written before
    std::string out;
    for (uint64_t offset = 0; offset <= 10 * 1024; offset += 1024)
      out.append(reinterpret_cast<const char*>(&offset), sizeof offset);
    return out;
  }();
  std::ofstream(file_of("b", 0).string() + ".idx", std::ios::binary) << index;
  DataOrder order(set("b", 0), 1);
  const auto all = keys(order, 0, 10);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(all[i] == fmt::format("b0-{}", i), i != 3) << all[i];
  EXPECT_EQ(all[3], keys(order, 3, 1)[0]);
  EXPECT_THAT(test::refusal([&] { order.set(0).read({0, 3}); }), HasSubstr("s-0.tar"));
  LostSamples lost("order", {});
  testing::internal::CaptureStderr();
  for (uint64_t slot = 0; slot < 20; ++slot) order.key(slot, {}, &lost);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("order: sample 3 of " + file_of("b", 0).string() + " is left out: "));
  EXPECT_EQ(lost.failed(), 1);
}

TEST_F(DataOrderOf, AThousandUnusableOnesSayWhyEachWasLeftOut) {
  const DataOrder order(set("a", 0), 1);
  LostSamples lost("order", {});
  std::map<std::string, int> counts;
  const auto use = [&](const DataOrder::Draw& draw, Unused& unused) -> bool {
    const uint64_t n = draw.place.sample;
    if (n == 9) ++counts["damaged"];
    if (n == 9) throw Error(KINORA_ERROR_DATA, "torn");
    unused = n == 8   ? held_out()
             : n == 7 ? Unused{Unused::Kind::too_short, "3 frames", "longer ones"}
                      : Unused{Unused::Kind::dropped, n % 2 == 0 ? "filter.even" : "filter.odd", ""};
    ++counts[unused.reason()];
    return false;
  };
  const std::string said = test::refusal([&] { order.find_usable(0, use, &lost); });
  int sum = 0;
  for (const auto& [reason, count] : counts) {
    EXPECT_THAT(said, HasSubstr(fmt::format(" {} {}", count, reason)));
    sum += count;
  }
  EXPECT_EQ(counts.size(), 5u);
  EXPECT_EQ(sum, 1000);
  EXPECT_THAT(said, testing::AllOf(HasSubstr("/a: 1000 samples in a row cannot be used: "),
                                   HasSubstr("; the last damaged one: torn; change what leaves them out")));
  EXPECT_EQ(lost.counts().at("dropped").size(), 2u);
}

TEST_F(DataOrderOf, AStateIsOfItsDataAlone) {
  const DataOrder order(set("a", 5), 1);
  const fs::path file = folder_ / "at.json";
  write_data_state(file, {4816, order.digest()});
  EXPECT_EQ(read_data_state(file, order.digest()).slots, 4816u);
  EXPECT_THAT(test::refusal([&] { read_data_state(file, "other"); }),
              HasSubstr("the position is of other data"));
  for (const char* bad : {"", "{}", "[1]", "{\"kinora\": \"data-state/1\", \"slots\": -1, \"data\": \"\"}"}) {
    std::ofstream(file) << bad;
    EXPECT_THAT(test::refusal([&] { read_data_state(file, ""); }), HasSubstr("not a position in data"));
  }
}

}  // namespace
}  // namespace kinora::core
