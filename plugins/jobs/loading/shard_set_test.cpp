#include "plugins/jobs/loading/shard_set.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tar_bytes.hpp"

namespace kinora::core {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A file of a storage that may be away.
class DistantFile final : public ByteSource {
 public:
  DistantFile(std::shared_ptr<const ByteSource> file, const bool& is_away, int& tries)
      : file_(std::move(file)), is_away_(is_away), tries_(tries) {}
  const std::string& name() const override { return file_->name(); }
  uint64_t size() const override { return file_->size(); }
  Result<uint64_t> read(uint64_t offset, void* to, uint64_t size) const override {
    if (!is_away_) return file_->read(offset, to, size);
    ++tries_;
    return fail(KINORA_ERROR_IO, "{}: cannot be read: HTTP 500", name());
  }

 private:
  std::shared_ptr<const ByteSource> file_;
  const bool& is_away_;
  int& tries_;
};

// Eight shards of two samples, each of 1,024 bytes, whose storage can be away.
class ShardSetOf : public ::testing::Test {
 protected:
  static constexpr size_t kShards = 8;
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "kinora-shards-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    for (size_t shard = 0; shard < kShards; ++shard)
      std::ofstream(folder_ / (std::to_string(shard) + ".tar"), std::ios::binary) << test::tar_bytes(
          {{"a" + std::to_string(shard) + ".txt", "x"}, {"b" + std::to_string(shard) + ".txt", "y"}});
    set_.emplace(folder_.string(), nullptr,
                 [this](std::string_view uri) -> Result<std::shared_ptr<const ByteSource>> {
                   auto file = open_bytes(uri);
                   if (!file) return file;
                   const size_t shard = uri[folder_.string().size() + 1] - '0';
                   return std::shared_ptr<const ByteSource>(
                       std::make_shared<DistantFile>(*file, is_away_[shard], tries_));
                 });
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The key of a sample, or the code and text of the error.
  std::string key(size_t shard, uint64_t sample) {
    try {
      return set_->reading(shard, sample, [&](const SampleShard& its) { return its.key(sample); });
    } catch (const Error& e) {
      return std::to_string(e.code()) + " " + e.what();
    }
  }

  static inline const std::string kOfSample = std::to_string(KINORA_ERROR_DATA) + " ",
                                  kOfStorage = std::to_string(KINORA_ERROR_IO) + " ";
  std::filesystem::path folder_;
  bool is_away_[kShards] = {};
  int tries_ = 0;
  std::optional<ShardSet> set_;
};

TEST_F(ShardSetOf, AShardThatCannotBeReadCostsItsSamplesAlone) {
  is_away_[3] = true;
  EXPECT_EQ(key(2, 1), "b2");
  const std::string said = key(3, 1);
  EXPECT_THAT(said, testing::StartsWith(kOfSample));
  EXPECT_THAT(
      said, HasSubstr("/3.tar: cannot be read: HTTP 500 (the sample at byte 1024); the samples of this shard "
                      "are left out for 10 minutes"));
  const int before = tries_;
  EXPECT_GT(before, 0);
  EXPECT_EQ(key(3, 0), said);
  EXPECT_EQ(tries_, before) << "the storage is not asked again at once";
  EXPECT_EQ(key(4, 0), "a4");
}

TEST_F(ShardSetOf, AStorageThatIsAwayEndsTheLoad) {
  for (bool& shard : is_away_) shard = true;
  for (size_t shard = 0; shard < 4; ++shard)
    for (uint64_t sample = 0; sample < 2; ++sample)
      EXPECT_THAT(key(shard, sample), testing::StartsWith(kOfSample)) << shard;
  const std::string said = key(4, 0);
  EXPECT_THAT(said, testing::StartsWith(kOfStorage));
  EXPECT_THAT(said, HasSubstr("/4.tar: cannot be read: HTTP 500 (the sample at byte 0); 5 shards of "));
}

TEST_F(ShardSetOf, AReadInBetweenIsNoAbsence) {
  for (size_t shard = 0; shard < 7; ++shard) is_away_[shard] = true;
  for (size_t shard = 0; shard < 7; ++shard) {
    EXPECT_THAT(key(shard, 0), testing::StartsWith(kOfSample)) << shard;
    EXPECT_EQ(key(7, 0), "a7");
  }
}

}  // namespace
}  // namespace kinora::core
