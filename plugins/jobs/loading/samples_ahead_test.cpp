#include "plugins/jobs/loading/samples_ahead.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.hpp"
#include "tests/support/tar_bytes.hpp"

namespace kinora::core {
namespace {

constexpr uint64_t kSampleBytes = 1024;  // a header and a block
const SlotTurns kEverySlot{.first = 0, .count = 1, .of = 1};

// Three shards of ten samples, each of kSampleBytes, with their indices.
class SamplesAheadOf : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "kinora-ahead-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    std::string index;
    for (uint64_t offset = 0; offset <= 10 * kSampleBytes; offset += kSampleBytes)
      index.append(reinterpret_cast<const char*>(&offset), sizeof offset);
    for (int shard = 0; shard < 3; ++shard) {
      test::TarFiles files;
      for (int i = 0; i < 10; ++i)
        files.emplace_back(fmt::format("{}-{}.txt", shard, i), fmt::format("{:500}", shard * 10 + i));
      std::ofstream(shard_file(shard), std::ios::binary) << test::tar_bytes(files);
      std::ofstream(shard_file(shard).string() + ".idx", std::ios::binary) << index;
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path shard_file(int shard) const { return folder_ / fmt::format("s-{}.tar", shard); }
  DataInput input() const { return {.path = folder_.string(), .parts = {}, .shuffle = 7}; }
  uint64_t bytes_read(const SamplesAhead& ahead) const { return ahead.counts().bytes.at(folder_.string()); }
  // Makes the sample's header wrong.
  void damage(ShardOrder::Place place) const {
    std::fstream file(shard_file(static_cast<int>(place.shard)),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(place.sample * kSampleBytes + 148));
    file << "999999";
  }

  std::filesystem::path folder_;
};

std::string text_of(const WebDatasetSample& sample) {
  const auto& bytes = sample.fields.at(0).bytes;
  return sample.key() + ":" + std::string(bytes.begin(), bytes.end());
}

std::string read_ahead(DataOrder& order, SamplesAhead& ahead, uint64_t slot) {
  return text_of(ahead.read(slot, order.at(slot)));
}

std::string read_directly(DataOrder& order, uint64_t slot) {
  const auto draw = order.at(slot);
  return text_of(order.set(draw.set).read(draw.place));
}

// Whether so many samples are ready, which may take a while.
bool gets_ready(const SamplesAhead& ahead, uint64_t count) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (ahead.counts().ready != count && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return ahead.counts().ready == count;
}

TEST(SlotTurns, AreACountOfEachStride) {
  const SlotTurns turns{.first = 2, .count = 2, .of = 6};
  EXPECT_EQ(turns.next(2), 3u);
  EXPECT_EQ(turns.next(3), 8u);
  EXPECT_EQ(turns.next(8), 9u);
  EXPECT_EQ(turns.next(9), 14u);
  EXPECT_EQ(turns.next(0), 2u) << "from a slot out of turn";
  EXPECT_EQ(turns.next(5), 8u);
  EXPECT_EQ(kEverySlot.next(7), 8u);
}

TEST(SlotTurns, MayBeAList) {
  const SlotTurns turns{.slots = {4, 2, 9}};
  EXPECT_EQ(turns.next(4), 2u);
  EXPECT_EQ(turns.next(2), 9u);
  EXPECT_EQ(turns.next(9), UINT64_MAX);
  EXPECT_EQ(turns.next(5), UINT64_MAX);
}

TEST_F(SamplesAheadOf, AreThoseOfDirectReadsAfterAnyJump) {
  DataOrder order(input(), 1), direct(input(), 1);
  SamplesAhead ahead(order, {.memory = 8 * kSampleBytes, .readers = 4});
  ahead.follow(kEverySlot);
  std::mt19937 random(1);
  uint64_t samples = 0;
  for (int run = 0; run < 50; ++run) {
    uint64_t slot = random() % 300;
    for (uint64_t n = random() % 40; n > 0; --n, ++slot, ++samples)
      ASSERT_EQ(read_ahead(order, ahead, slot), read_directly(direct, slot)) << slot;
  }
  EXPECT_LE(ahead.counts().ahead_peak, 8 * kSampleBytes);
  EXPECT_GT(ahead.counts().ahead_peak, 0u);
  EXPECT_EQ(ahead.counts().samples, samples);
}

TEST_F(SamplesAheadOf, FillTheMemoryAndNoMore) {
  DataOrder order(input(), 1);
  SamplesAhead ahead(order, {.memory = 5 * kSampleBytes + 1000, .readers = 3});
  ahead.follow(kEverySlot);
  for (uint64_t slot = 0; slot < 3; ++slot) read_ahead(order, ahead, slot);
  EXPECT_TRUE(gets_ready(ahead, 5)) << ahead.counts().ready;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(ahead.counts().ready, 5u);
  EXPECT_EQ(ahead.counts().ahead_peak, 5 * kSampleBytes);
}

TEST_F(SamplesAheadOf, LargerThanTheMemoryAreReadOneByOne) {
  DataOrder order(input(), 1), direct(input(), 1);
  SamplesAhead ahead(order, {.memory = kSampleBytes - 1, .readers = 4});
  ahead.follow(kEverySlot);
  for (uint64_t slot = 0; slot < 40; ++slot)
    ASSERT_EQ(read_ahead(order, ahead, slot), read_directly(direct, slot));
  EXPECT_EQ(ahead.counts().ahead_peak, kSampleBytes);
}

TEST_F(SamplesAheadOf, OfTurnsAreReadOnceAndNoOthers) {
  DataOrder order(input(), 1), direct(input(), 1);
  uint64_t before = 0, count = 0;
  SamplesAhead ahead(order, {.memory = 1 << 20, .readers = 4});
  const SlotTurns turns{.first = 2, .count = 2, .of = 6, .end = 100};
  ahead.follow(turns);
  before = bytes_read(ahead);
  for (uint64_t slot = 2; slot < turns.end; slot = turns.next(slot), ++count)
    ASSERT_EQ(read_ahead(order, ahead, slot), read_directly(direct, slot)) << slot;
  EXPECT_EQ(count, 34u) << "two of each six from 2 to 99, and 98 and 99";
  EXPECT_EQ(bytes_read(ahead) - before, count * kSampleBytes);
}

// As a training with packed rows does, which knows the slots of its next row alone.
TEST_F(SamplesAheadOf, FollowAListThatGrows) {
  DataOrder order(input(), 1), direct(input(), 1);
  SamplesAhead ahead(order, {.memory = 1 << 20, .readers = 4});
  const std::vector<std::vector<uint64_t>> rows{{3, 0, 7}, {9, 5, 1}, {14, 11, 10, 19}, {16}, {13, 12}};
  const uint64_t before = bytes_read(ahead);
  uint64_t count = 0;
  for (size_t row = 0; row < rows.size(); ++row) {
    SlotTurns turns;
    for (size_t known = row == 0 ? 0 : row - 1; known <= row; ++known)
      turns.slots.insert(turns.slots.end(), rows[known].begin(), rows[known].end());
    ahead.follow(turns);
    for (const uint64_t slot : rows[row]) {
      ASSERT_EQ(read_ahead(order, ahead, slot), read_directly(direct, slot)) << slot;
      ++count;
    }
  }
  EXPECT_EQ(bytes_read(ahead) - before, count * kSampleBytes) << "each once";
  EXPECT_GT(ahead.counts().ahead_peak, 0u);
}

TEST_F(SamplesAheadOf, StayWhileReadsOutOfTurnAreMade) {
  DataOrder order(input(), 1), direct(input(), 1);
  SamplesAhead ahead(order, {.memory = 5 * kSampleBytes, .readers = 4});
  ahead.follow(kEverySlot);
  for (uint64_t slot = 0; slot < 3; ++slot) read_ahead(order, ahead, slot);
  ASSERT_TRUE(gets_ready(ahead, 5));
  ahead.follow(SlotTurns());
  EXPECT_EQ(read_ahead(order, ahead, 77), read_directly(direct, 77));
  EXPECT_EQ(ahead.counts().ready, 5u);
  ahead.follow(kEverySlot);
  const uint64_t before = bytes_read(ahead);
  EXPECT_EQ(read_ahead(order, ahead, 3), read_directly(direct, 3));
  EXPECT_LE(bytes_read(ahead) - before, kSampleBytes) << "only the one that takes its place";
}

TEST_F(SamplesAheadOf, CostNothingToOneWhoJumps) {
  DataOrder order(input(), 1);
  SamplesAhead ahead(order, {.memory = 1 << 20, .readers = 4});
  ahead.follow(kEverySlot);
  const uint64_t before = bytes_read(ahead);
  for (uint64_t slot = 0; slot < 200; slot += 10) read_ahead(order, ahead, slot);
  EXPECT_EQ(bytes_read(ahead) - before, 20 * kSampleBytes);
}

TEST_F(SamplesAheadOf, LocalFilesAreReadDirectlyUnlessReadersAreGiven) {
  DataOrder order(input(), 1);
  SamplesAhead ahead(order, DataReading());
  ahead.follow(kEverySlot);
  for (uint64_t slot = 0; slot < 20; ++slot) read_ahead(order, ahead, slot);
  EXPECT_EQ(ahead.counts().ahead_peak, 0u);
  EXPECT_EQ(ahead.counts().samples, 20u);
}

TEST_F(SamplesAheadOf, AnErrorComesWithItsSlotAndTheReplacementIsThatOfDirectReads) {
  DataOrder order(input(), 1), direct(input(), 1);
  damage(direct.at(11).place);
  SamplesAhead ahead(order, {.memory = 8 * kSampleBytes, .readers = 4});
  ahead.follow(kEverySlot);
  LostSamples lost("job", {});
  for (uint64_t slot = 0; slot < 60; ++slot) {
    const bool is_damaged = order.text_of(order.at(slot)) == direct.text_of(direct.at(11));
    std::string got, expected;
    int tries = 0;
    order.find_usable(
        slot,
        [&](const DataOrder::Draw& draw, Unused&) {
          ++tries;
          got = text_of(ahead.read(slot, draw));
          return true;
        },
        &lost);
    direct.find_usable(slot, [&](const DataOrder::Draw& draw, Unused&) {
      expected = text_of(direct.set(draw.set).read(draw.place));
      return true;
    });
    ASSERT_EQ(got, expected) << slot;
    EXPECT_EQ(tries > 1, is_damaged) << slot;
  }
  EXPECT_EQ(lost.failed(), 1);
}

TEST_F(SamplesAheadOf, ASampleThatIsNotWantedHasNotFailed) {
  DataOrder order(input(), 1);
  LostSamples lost("job", {.max_failed = 0});
  int tries = 0;
  order.find_usable(
      0, [&](const DataOrder::Draw&, Unused&) { return ++tries == 3; }, &lost);
  EXPECT_EQ(lost.failed(), 0);
  const auto refuse = [&](const DataOrder::Draw&, Unused& unused) {
    unused = {.why = "it is torn"};
    return false;
  };
  EXPECT_THAT(test::refusal([&] { order.find_usable(0, refuse, &lost); }),
              testing::AllOf(testing::HasSubstr("max_failed = 0"), testing::HasSubstr("it is torn")));
  EXPECT_EQ(lost.failed(), 1);
}

TEST_F(SamplesAheadOf, EndWhileReadersReadOrWaitForMemory) {
  DataOrder order(input(), 1);
  for (uint64_t reads = 0; reads < 40; ++reads) {
    SamplesAhead ahead(order, {.memory = (1 + reads % 3) * kSampleBytes, .readers = 4});
    ahead.follow(kEverySlot);
    for (uint64_t slot = 0; slot < reads; ++slot) read_ahead(order, ahead, slot);
  }
}

}  // namespace
}  // namespace kinora::core
